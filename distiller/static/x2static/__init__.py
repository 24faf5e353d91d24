"""X2Static (Gupta & Jaggi 2021): vectors of words that predict the vectors of their sentences.

`teacher.py` has the frozen model make the vectors of sentences, with the weights of `pooling.py`, and `staging.py` lays
them out as arrays. The training works on these: `sentences.py` makes batches of them, `sampling.py` says which words
are targets and negatives, `trainer.py` trains one worker's share of the vocabulary with the kernels of `kernel.py`, and
`checkpoint.py` saves it. `workers.py` and `training.py` run several workers, and `job.py` is the method as a whole.
"""

from corpusgen.extras import require

require("training X2Static", extra="static")
