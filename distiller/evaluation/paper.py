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

_STATIC_TASKS = ("RG-65", "WS-353", "SimLex-999", "SimVerb-3500", "RW")
_STATIC = {
    "X2Static BERT-12 para": (0.7555, 0.7598, 0.5384, 0.4317, 0.5299),
    "ASE BERT-12 best layer": (0.6948, 0.6768, 0.5195, 0.3889, 0.4343),
}
STATIC: dict[str, dict[str, float]] = {
    task: {name: scores[column] for name, scores in _STATIC.items()} for column, task in enumerate(_STATIC_TASKS)
}
"""Scores by benchmark and method: X2Static, and ASE of Bommasani et al. (2020), as Gupta & Jaggi (2021) report."""
