"""The benchmarks of vectors in context in a folder: what each of them encodes, and how it is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corpusgen.errors import ConfigError
from distiller.evaluation.files import ItemSet, chosen_tasks
from distiller.evaluation.paper import PAPER
from distiller.evaluation.results import Encoder, TaskResult
from distiller.evaluation.scoring import Judged, averaged, change, correlated, decided, joined, judge, separated
from distiller.evaluation.sentence_files import read_paws, read_semeval_sts, read_sts, read_stsb
from distiller.evaluation.static_files import read_similarities, similarity_files
from distiller.evaluation.word_files import read_cosimlex, read_mclwic, read_scws, read_usages, read_usim, read_wic


@dataclass(frozen=True)
class Task:
    """A benchmark whose files have been read."""

    name: str
    sets: Sequence[ItemSet]
    score: Callable[[list[Judged]], list[TaskResult]]
    """The function that turns the predictions for each set into one or more results."""

    def run(self, encoder: Encoder) -> list[TaskResult]:
        """Score all kinds of vectors of a model."""
        return self.score(judge(encoder, self.sets))


def find_tasks(data_dir: str | Path, names: Iterable[str] | None = None) -> list[Task]:
    """Read all or the named benchmarks of a folder; each is in a folder with the task's name."""
    folder = Path(data_dir)
    found = {name: path for name in _READERS if (path := _folder(folder, name)) is not None}
    if "wordsim" in found and not similarity_files(found["wordsim"]):
        del found["wordsim"]  # it has only analogies, which are for static vectors
    looked_for = ", ".join(f"{name}/" for name in _READERS)
    if not found:
        raise ConfigError(
            f"{folder} has no benchmark for vectors in context; it should contain some of these folders: {looked_for}"
        )
    wanted = chosen_tasks(names, _READERS, found, lambda name: f"the task {name} needs the folder {folder / name}")
    return [Task(name, *_READERS[name](found[name])) for name in wanted]


def _folder(folder: Path, name: str) -> Path | None:
    return next((folder / known for known in (name, *_OTHER_FOLDERS.get(name, ())) if (folder / known).is_dir()), None)


_Read = tuple[Sequence[ItemSet], Callable[[list[Judged]], list[TaskResult]]]


def _beside_paper(result: TaskResult, benchmark: str) -> TaskResult:
    return replace(result, paper=PAPER[benchmark])


# ---------------------------------------------------------------- correlations


def _usim(folder: Path) -> _Read:
    return [read_usim(folder / "usim_en.txt")], partial(_by_rank, "USim")


def _scws(folder: Path) -> _Read:
    return [read_scws(folder / "ratings.txt")], partial(_by_rank, "SCWS")


def _by_rank(benchmark: str, judged: list[Judged]) -> list[TaskResult]:
    return [_beside_paper(correlated(benchmark, "Spearman", judged[0]), benchmark)]


def _cosimlex(folder: Path) -> _Read:
    return read_cosimlex(folder / "cosimlex_en.csv"), _score_cosimlex


def _score_cosimlex(judged: list[Judged]) -> list[TaskResult]:
    """Score changes by SemEval's metric, about zero, so that their direction counts, and by the paper's metric."""
    by_paper = replace(correlated("CoSimLex-I by the paper's metric", "Pearson", change(*judged)), second=True)
    return [
        correlated("CoSimLex-I", "uncentred Pearson", change(*judged)),
        _beside_paper(by_paper, "CoSimLex-I"),
        _beside_paper(correlated("CoSimLex-II", "Spearman", joined(*judged)), "CoSimLex-II"),
    ]


def _sts(folder: Path) -> _Read:
    found = {(year, name): files for year in _YEARS for name, files in _sub_corpora(folder / year).items()}
    if not found:
        raise ConfigError(
            f"{folder} has no sub-corpora; they must be named 2012/*.test.tsv to 2016/*.test.tsv, or "
            "2012/STS.input.*.txt with 2012/STS.gs.*.txt"
        )
    sets = [read_sts(*files) if len(files) == 1 else read_semeval_sts(*files) for files in found.values()]
    return sets, partial(_score_sts, list(found))


_YEARS = ("2012", "2013", "2014", "2015", "2016")


def _sub_corpora(folder: Path) -> dict[str, Sequence[Path]]:
    """Return by name the file of each sub-corpus, or SemEval's two files: texts and scores."""
    found: dict[str, Sequence[Path]] = {
        path.name.removesuffix(".test.tsv"): [path] for path in folder.glob("*.test.tsv")
    }
    for path in folder.glob("STS*.input.*.txt"):  # files of 2016 begin with STS2016
        name = path.name.partition(".input.")[2].removesuffix(".txt").removeprefix("surprise.")
        if name != "ALL":  # it repeats the other files
            found.setdefault(name, [path, path.with_name(path.name.replace(".input.", ".gs."))])
    return dict(sorted(found.items()))


def _score_sts(names: list[tuple[str, str]], judged: list[Judged]) -> list[TaskResult]:
    years: dict[str, list[tuple[str, Judged]]] = {}
    for (year, name), of_part in zip(names, judged, strict=True):
        years.setdefault(f"STS {year}", []).append((f"STS {year} {name}", of_part))
    return [_beside_paper(averaged(benchmark, "Pearson", parts), benchmark) for benchmark, parts in years.items()]


def _stsb(folder: Path) -> _Read:
    paths = {split: folder / f"sts-{split}.csv" for split in ("dev", "test") if (folder / f"sts-{split}.csv").exists()}
    if not paths:
        raise ConfigError(f"{folder} has neither sts-dev.csv nor sts-test.csv")
    return [read_stsb(path) for path in paths.values()], partial(_score_stsb, list(paths))


def _score_stsb(splits: list[str], judged: list[Judged]) -> list[TaskResult]:
    return [correlated(f"STS-B {split}", "Pearson", of_split) for split, of_split in zip(splits, judged, strict=True)]


# ------------------------------------------------------------------- decisions


def _wic(folder: Path) -> _Read:
    files = {split: (folder / split / f"{split}.data.txt", folder / split / f"{split}.gold.txt") for split in _SPLITS}
    there = {split: paths for split, paths in files.items() if all(path.exists() for path in paths)}
    tuning, scored = _chosen_splits(folder, there)
    return [read_wic(*files[tuning]), read_wic(*files[scored])], partial(_score_decisions, "WiC", scored)


def _paws(folder: Path) -> _Read:
    paths = [folder / f"{split}{suffix}" for split in _SPLITS for suffix in (".csv", ".tsv")]
    there = {path.stem: path for path in paths if path.exists()}
    tuning, scored = _chosen_splits(folder, there)
    return [read_paws(there[tuning]), read_paws(there[scored])], partial(_score_decisions, "PAWS-Wiki", scored)


_SPLITS = ("train", "dev", "test")


def _chosen_splits(folder: Path, there: Iterable[str]) -> tuple[str, str]:
    """Return the sets for the threshold and for the score: dev and test, or train and dev if test has no gold."""
    for tuning, scored in (("dev", "test"), ("train", "dev")):
        if tuning in there and scored in there:
            return tuning, scored
    raise ConfigError(f"{folder} needs dev and test sets, or train and dev sets, with gold; it has {list(there)}")


def _score_decisions(benchmark: str, split: str, judged: list[Judged]) -> list[TaskResult]:
    task = f"{benchmark} {split}"
    result = _beside_paper(decided(task, *judged), benchmark)
    return [result if split == "test" else replace(result, paper_items="test set"), separated(task, judged[1])]


def _mclwic(folder: Path) -> _Read:
    """Read the test sets, each with a threshold from its second language; without gold, dev sets with another's."""
    golds = {path.stem: path for path in sorted(folder.rglob("*.gold"))}
    files = {path.stem: (path, golds[path.stem]) for path in sorted(folder.rglob("*.data")) if path.stem in golds}
    tests = [name for name in files if name.startswith("test.")] or [name for name in files if name.startswith("dev.")]
    tuned = {name: _tuning_set(name, files) for name in tests}
    pairs = [(name, tuning) for name, tuning in tuned.items() if tuning is not None]
    if not pairs:
        raise ConfigError(
            f"{folder} needs a set to score and a dev set of another name for the threshold, both with gold: "
            f"test.en-fr.data, test.en-fr.gold, dev.fr-fr.data, dev.fr-fr.gold. It has {list(files)}"
        )
    used = list(dict.fromkeys(name for pair in pairs for name in pair))
    return [read_mclwic(*files[name]) for name in used], partial(_score_mclwic, used, pairs)


def _tuning_set(name: str, there: Iterable[str]) -> str | None:
    language = name.rpartition("-")[2]
    others = [other for other in there if other != name and other.startswith(("dev.", "training."))]
    preferred = [f"dev.{language}-{language}", "dev.en-en", *others]
    return next((other for other in preferred if other in others), None)


def _score_mclwic(used: list[str], pairs: list[tuple[str, str]], judged: list[Judged]) -> list[TaskResult]:
    by_name = dict(zip(used, judged, strict=True))
    results: list[TaskResult] = []
    for name, tuning in pairs:
        results.append(decided(f"MCL-WiC {name} (threshold of {tuning})", by_name[tuning], by_name[name]))
        results.append(separated(f"MCL-WiC {name}", by_name[name]))
    return results


def _usages(folder: Path) -> _Read:
    """Read the user's own set, which tests whether words of the same sense are nearer to each other."""
    return [read_usages(folder / "usages.tsv")], partial(_score_each, ["usages"])


def _wordsim(folder: Path) -> _Read:
    """Read sets of words without context, which a model encodes as whole texts."""
    found = similarity_files(folder)
    sets = [read_similarities(path, layout) for path, layout in found.values()]
    return sets, partial(_score_each, [f"{name} (words alone)" for name in found])


def _score_each(names: list[str], judged: list[Judged]) -> list[TaskResult]:
    return [correlated(name, "Spearman", of_set) for name, of_set in zip(names, judged, strict=True)]


_READERS: Mapping[str, Callable[[Path], _Read]] = {
    "wic": _wic,
    "usim": _usim,
    "cosimlex": _cosimlex,
    "scws": _scws,
    "sts": _sts,
    "stsb": _stsb,
    "paws_wiki": _paws,
    "mclwic": _mclwic,
    "usages": _usages,
    "wordsim": _wordsim,
}
_OTHER_FOLDERS: Mapping[str, Sequence[str]] = {"paws_wiki": ["paws"]}
