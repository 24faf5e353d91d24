"""Dynamic skip-gram (Wang, Cui & Zhang 2020): words predict their contexts, each with its contextual vector.

`teacher.py` has the frozen model make the vectors of words in their sentences, and `lines.py` lays the sentences out as
arrays, or lets a worker compute the vectors as it trains. `windows.py` finds the contexts and negatives of a batch,
`objective.py` is the loss, `trainer.py` the step of one worker among others, and `training.py` the course of a
training. `job.py` is the method as a whole.
"""

from corpusgen.extras import require

require("training dynamic skip-gram", extra="static")
