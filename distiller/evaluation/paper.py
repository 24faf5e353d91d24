"""Published scores: of BERT-large by Arase & Kajiwara (2021), tables 3 to 6, and of static vectors."""

PAPER: dict[str, dict[str, float]] = {
    "USim": {"baseline": 0.5966, "meaning": 0.6305, "context": 0.4147},
    "WiC": {"baseline": 0.6657, "meaning": 0.6729, "context": 0.6221},
    "CoSimLex-I": {"baseline": 0.7638, "meaning": 0.7576, "context": 0.6485},
    "CoSimLex-II": {"baseline": 0.7332, "meaning": 0.7358, "context": 0.5106},
    "SCWS": {"baseline": 0.7255, "meaning": 0.7594, "context": 0.2914},
    "STS 2012": {"baseline": 0.480, "meaning": 0.583, "context": 0.460},
    "STS 2013": {"baseline": 0.492, "meaning": 0.628, "context": 0.411},
    "STS 2014": {"baseline": 0.538, "meaning": 0.662, "context": 0.466},
    "STS 2015": {"baseline": 0.589, "meaning": 0.714, "context": 0.569},
    "STS 2016": {"baseline": 0.576, "meaning": 0.684, "context": 0.575},
    "PAWS-Wiki": {"baseline": 0.5576, "meaning": 0.5671},
}
"""Shares and correlations by benchmark, whole and with its test items, and by kind of vectors."""

_X2STATIC_TASKS = ("RG-65", "WS-353", "SimLex-999", "SimVerb-3500", "RW")
_X2STATIC = {
    "X2Static BERT-12 para": (0.7555, 0.7598, 0.5384, 0.4317, 0.5299),
    "X2Static BERT-12 sent": (0.7421, 0.7297, 0.5461, 0.4437, 0.5469),
    "ASE BERT-12 layer 3": (0.6948, 0.6768, 0.5195, 0.3889, 0.4343),
}
_SKIPGRAM_TASKS = (
    *("WS-353", "WS-353 similarity", "WS-353 relatedness", "SimLex-999", "RW", "MEN"),
    *("MSR analogies", "Google analogies", "SemEval-2012 relations"),
)
_SKIPGRAM = {
    "dynamic skip-gram BERT-12": (0.728, 0.753, 0.666, 0.494, 0.423, 0.762, 0.573, 0.758, 0.209),
    "ASE BERT-12 layer 12": (0.594, 0.670, 0.499, 0.468, 0.308, 0.663, 0.622, 0.594, 0.208),
}


def _by_task() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for tasks, methods in ((_X2STATIC_TASKS, _X2STATIC), (_SKIPGRAM_TASKS, _SKIPGRAM)):
        for name, scores in methods.items():
            for task, score in zip(tasks, scores, strict=True):
                found.setdefault(task, {})[name] = score
    return found


STATIC = _by_task()
"""Scores by benchmark and method: X2Static and ASE (Bommasani et al. 2020) as Gupta & Jaggi (2021) report, dynamic
skip-gram and ASE as Wang, Cui & Zhang (2020) do. The texts differ, and so do words without a vector in RW."""
