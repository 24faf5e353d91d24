"""Each format gives its items, with exact spans of the words; what is wrong with a line is counted and named."""

import json

import pytest

from corpusgen.errors import ConfigError
from distiller.evaluation.files import token_span, unmarked
from distiller.evaluation.sentence_files import read_paws, read_semeval_sts, read_sts, read_stsb
from distiller.evaluation.static_files import (
    SIMILARITIES,
    Layout,
    read_google_analogies,
    read_msr_analogies,
    read_msr_questions,
    read_similarities,
)
from distiller.evaluation.word_files import read_cosimlex, read_mclwic, read_scws, read_usim, read_wic


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def words(items):
    return [tuple(text[start:end] for text, (start, end) in pair.occurrences) for pair in items.pairs]


def gold(items):
    return [pair.gold for pair in items.pairs]


def skipped(items):
    return {skip.item: skip.reason for skip in items.skipped}


# --- words ---


def wic(folder, lines, answers):
    return read_wic(write(folder / "dev.data.txt", *lines), write(folder / "dev.gold.txt", *answers))


def test_wic_counts_words_and_finds_the_right_one_of_several(tmp_path):
    items = wic(
        tmp_path,
        ["bank\tN\t3-1\tThe bank , bank of England .\tA bank bank .", "go\tV\t0-2\tGo on .\tHe ’s gone ."],
        ["T", "F"],
    )
    assert words(items) == [("bank", "bank"), ("Go", "gone")]
    assert items.pairs[0].spans == ((11, 15), (2, 6))
    assert gold(items) == [1, 0]
    assert [pair.item for pair in items.pairs] == ["dev.data.txt:1", "dev.data.txt:2"]


def test_bad_lines_of_wic_keep_the_others_with_their_gold(tmp_path):
    good = "go\tV\t0-0\tGo on .\tGo ."
    lines = [
        "go\tV\t0-9\tGo on .\tGo .",
        "go\tV\t0\tGo .\tGo .",
        "",
        good,
        "go\tV\t0-0\tGo",
        good,
        "go\tV\tx-0\tGo\tGo",
    ]
    items = wic(tmp_path, [*lines, good], ["T", "T", "T", "F", "T", "?", "T", "T"])
    assert gold(items) == [0, 1]
    assert skipped(items).keys() == {f"dev.data.txt:{line}" for line in (1, 2, 3, 5, 6, 7)}
    assert "no word 9 among 2" in skipped(items)["dev.data.txt:1"]
    assert "?" in skipped(items)["dev.data.txt:6"]


def test_gold_of_another_length_is_not_this_sets(tmp_path):
    with pytest.raises(ConfigError, match=r"dev\.gold\.txt"):
        wic(tmp_path, ["go\tV\t0-0\tGo on .\tGo ."] * 2, ["T"])


def test_usim_takes_lines_in_twos(tmp_path):
    path = write(
        tmp_path / "usim_en.txt",
        "He was bright .\t2\t1.5\tbright.a 1",
        "A bright , bright star\t3\t1.5\tbright.a 2",
        "He was bright .\t2\t4\tbright.a 1",
        "A bright star\t1\t5\tbright.a 3",
        "He was bright .\t9\t4\tbright.a 1",
        "A bright star\t1\t4\tbright.a 3",
        "He was bright .\t2\t4\tbright.a 1",
        "A dark star\t1\t4\tdark.a 3",
        "He was bright .\t2\t5\tbright.a 4",
        "A bright star\t1\t5.0\tbright.a 3",
        "He was bright .\t2\t5\tbright.a 4",
    )
    items = read_usim(path)
    assert words(items) == [("bright", "bright")] * 2
    assert items.pairs[0].spans == ((7, 13), (11, 17))
    assert gold(items) == [1.5, 5]
    assert skipped(items).keys() == {f"usim_en.txt:{line}" for line in (3, 5, 7, 11)}


COSIMLEX = "word1\tword2\tcontext1\tcontext2\tsim1\tsim2"


def marked(word):
    return f"<strong>{word}</strong>"


def test_cosimlex_has_both_words_in_one_text_and_a_line_in_both_sets_or_none(tmp_path):
    calf, bull = marked("calf"), marked("bull")
    path = write(
        tmp_path / "cosimlex_en.csv",
        COSIMLEX,
        f"calf\tbull\tA {calf} or {bull}.\t{marked('Bull')}-{calf}\t3\t4",
        f"calf\tbull\tA {calf} or bull.\t{bull} {calf}\t3\t4",
        f'calf\tbull\t"{calf} ""{bull}"""\t"A" {bull} {calf}\t5\t6',
        f"calf\tbull\t{calf} {bull}\t{calf} {bull}\t5\tx",
        "calf\tbull",
    )
    first, second = read_cosimlex(path)
    assert words(first) == [("calf", "bull")] * 2
    assert words(second) == [("Bull", "calf"), ("bull", "calf")]
    assert [pair.texts[0] for pair in first.pairs] == ["A calf or bull.", 'calf "bull"']
    assert [pair.texts[0] for pair in second.pairs] == ["Bull-calf", '"A" bull calf']
    assert (gold(first), gold(second)) == ([3, 5], [4, 6])
    assert skipped(first).keys() == skipped(second).keys() == {f"cosimlex_en.csv:{line}" for line in (3, 5, 6)}


def test_cosimlex_without_ratings_is_refused(tmp_path):
    path = write(tmp_path / "cosimlex_en.csv", "word1\tword2\tcontext1\tcontext2", "a\tb\tc\td")
    with pytest.raises(ConfigError, match="no column sim1, sim2"):
        read_cosimlex(path)


def test_scws_loses_its_marks_and_not_its_spans(tmp_path):
    ratings = "\t".join(["0.0"] * 10)
    path = write(
        tmp_path / "ratings.txt",
        f"1\tnut\tn\tnut\tn\tA nut , a <b> nut </b> .\t<b> Nut </b> and nut\t1.1\t{ratings}",
        f"2\tnut\tn\tnut\tn\tA nut .\t<b> Nut </b> and nut\t1.1\t{ratings}",
        f"3\tnut\tn\tnut\tn\tA <b>  </b> .\t<b> Nut </b> and nut\t1.1\t{ratings}",
        f"4\tnut\tn\tnut\tn\tA <b> nut </b> .\t<b> Nut </b> and <b> nut </b>\t1.1\t{ratings}",
        f"5\tnut\tn\tnut\tn\tA <b> nut </b> .\t<b> Nut </b>\tnan\t{ratings}",
    )
    items = read_scws(path)
    assert items.pairs[0].texts == ("A nut , a nut .", "Nut and nut")
    assert items.pairs[0].spans == ((10, 13), (0, 3))
    assert (words(items), gold(items)) == ([("nut", "Nut")], [1.1])
    assert skipped(items).keys() == {f"ratings.txt:{line}" for line in (2, 3, 4, 5)}


def test_mclwic_has_spans_of_two_kinds_and_gold_by_id(tmp_path):
    start_end = {"start1": "4", "end1": "8", "start2": "0", "end2": "6"}
    entries = [
        {"id": "dev.0", "sentence1": "The bank", "sentence2": "Banque de France", **start_end},
        {"id": "dev.1", "sentence1": "look it up", "sentence2": "银行里", "ranges1": "0-4,8-10", "ranges2": "0-2"},
        {"id": "dev.2", "sentence1": "The bank", "sentence2": "Banque", "ranges1": "4-9", "ranges2": "0-6"},
        {"id": "dev.3", "sentence1": "The bank", "sentence2": "Banque", "ranges1": "4-8"},
        {"id": "dev.4", "sentence1": "The bank", "sentence2": "Banque", "ranges1": "4-8", "ranges2": "0-6"},
        {"id": "dev.5", "sentence1": "The bank", "sentence2": "Banque", "ranges1": "8-4", "ranges2": "0-6"},
        {"sentence1": "The bank", "sentence2": None},
    ]
    data, answers = tmp_path / "dev.en-fr.data", tmp_path / "dev.en-fr.gold"
    data.write_text(json.dumps(entries))
    answers.write_text(json.dumps([{"id": f"dev.{number}", "tag": "TF"[number % 2]} for number in (1, 0, 2, 3, 5)]))
    items = read_mclwic(data, answers)
    assert words(items) == [("bank", "Banque"), ("look", "银行")]
    assert gold(items) == [1, 0]
    assert skipped(items).keys() == {"dev.2", "dev.3", "dev.4", "dev.5", "dev.en-fr.data:7"}


@pytest.mark.parametrize("content", ["[", "{}", '["a"]'])
def test_broken_json_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.data").write_text(content)
    (tmp_path / "a.gold").write_text("[]")
    with pytest.raises(ConfigError, match=r"a\.data"):
        read_mclwic(tmp_path / "a.data", tmp_path / "a.gold")


# --- sentences ---


def test_pairs_of_sts_without_a_score_are_no_items(tmp_path):
    path = write(
        tmp_path / "a.test.tsv",
        'a\t"One\u2028line.\tTwo',
        '4.5\t"One\u2028line.\tTwo\r',
        "\tOne\tTwo",
        "5\t\tTwo",
        "5\tOne",
        "1\tOne \tTwo\tsource",
    )
    items = read_sts(path)
    assert [pair.texts for pair in items.pairs] == [('"One\u2028line.', "Two"), ("One", "Two")]
    assert gold(items) == [4.5, 1]
    assert skipped(items).keys() == {f"a.test.tsv:{line}" for line in (1, 4, 5)}


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_sts_of_semeval_has_its_scores_in_a_second_file(tmp_path, end):
    data = write(tmp_path / "STS.input.a.txt", "One\tTwo\r", "Three", "One\tThree", "\tTwo", "Two\tOne", "Two\tTwo")
    scores = tmp_path / "STS.gs.a.txt"
    scores.write_text("4.5\r\n1\n2\n3\nx\n" + end)  # of the last there is none, with or without a line
    items = read_semeval_sts(data, scores)
    assert [(pair.texts, pair.gold) for pair in items.pairs] == [(("One", "Two"), 4.5), (("One", "Three"), 2)]
    assert skipped(items).keys() == {f"STS.input.a.txt:{line}" for line in (2, 4, 5, 6)}
    assert skipped(items)["STS.input.a.txt:6"] == "it has no score"


@pytest.mark.parametrize("scores", ["4.5", "4.5\n1\n2"])
def test_sts_of_semeval_with_scores_of_another_set_is_refused(tmp_path, scores):
    data = write(tmp_path / "STS.input.a.txt", "One\tTwo", "Three\tFour")
    (tmp_path / "STS.gs.a.txt").write_text(scores)
    with pytest.raises(ConfigError, match=r"STS\.gs\.a\.txt has a different number"):
        read_semeval_sts(data, tmp_path / "STS.gs.a.txt")


def test_the_sts_benchmark_may_have_more_columns(tmp_path):
    start = "main-news\tMSRpar\t2012test\t0000"
    path = write(
        tmp_path / "sts-dev.csv", f"{start}\t5.000\tOne\tTwo\tx\ty", f"{start}\t2\tOne\tTwo", f"{start}\t2\tOne"
    )
    items = read_stsb(path)
    assert gold(items) == [5, 2]
    assert skipped(items).keys() == {"sts-dev.csv:3"}


def test_paws_is_read_as_csv_and_as_distributed(tmp_path):
    csv = write(
        tmp_path / "dev.csv",
        ",sentence1,sentence2,label",
        '0,"One , ""two"" .",Three .,1',
        '1,"One , two .,Three .,1',
        "2,One .,Two .,2",
        "3,One .,Two .,0",
    )
    tsv = write(tmp_path / "dev.tsv", "id\tsentence1\tsentence2\tlabel", '1\t"One\tTwo"\t1', "2\tOne\tTwo\t0\t0")
    assert [pair.texts for pair in read_paws(csv).pairs] == [('One , "two" .', "Three ."), ("One .", "Two .")]
    assert gold(read_paws(csv)) == [1, 0]
    assert skipped(read_paws(csv)).keys() == {"dev.csv:3", "dev.csv:4"}
    assert [pair.texts for pair in read_paws(tsv).pairs] == [('"One', 'Two"')]
    assert skipped(read_paws(tsv)).keys() == {"dev.tsv:3"}


def test_paws_without_its_columns_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no column label"):
        read_paws(write(tmp_path / "dev.tsv", "id\tsentence1\tsentence2", "1\tOne\tTwo"))


# --- static sets ---


@pytest.mark.parametrize(
    ("task", "name", "lines"),
    [
        ("RG-65", "EN-RG-65.txt", ["gem\tjewel\t3.94", "cord\tsmile\t0.02"]),
        ("WS-353", "EN-WS-353-ALL.txt", ["gem\tjewel\t3.94\r", "cord\tsmile\t0.02\r"]),
        ("WS-353", "combined.tab", ["Word 1\tWord 2\tHuman (mean)", "gem\tjewel\t3.94", "cord\tsmile\t0.02"]),
        (
            "SimLex-999",
            "SimLex-999.txt",
            ["word1\tword2\tPOS\tS\tc", "gem\tjewel\tN\t3.94\t1", "cord\tsmile\tN\t.02\t1"],
        ),
        ("SimVerb-3500", "SimVerb-3500.txt", ["gem\tjewel\tV\t3.94\tSYNONYMS", "cord\tsmile\tV\t0.02\tNONE"]),
        ("RW", "rw.txt", ["gem\tjewel\t3.94\t1\t2\t3", "cord\tsmile\t0.02\t4\t5\t6"]),
        ("MEN", "MEN_dataset_natural_form_full", ["gem jewel 3.94", "cord smile 0.02"]),
        ("MEN", "MEN_dataset_lemma_form_full", ["gem-n jewel-n 3.94", "cord-n smile-v 0.02"]),
    ],
)
def test_similarities_of_words_are_read_as_published(tmp_path, task, name, lines):
    layout = next(layout for layout in SIMILARITIES[task] if layout.name == name)
    items = read_similarities(write(tmp_path / name, *lines, "gem"), layout)
    assert [pair.texts for pair in items.pairs] == [("gem", "jewel"), ("cord", "smile")]
    assert gold(items) == [3.94, 0.02]
    assert skipped(items).keys() == {f"{name}:{len(lines) + 1}"}


def test_analogies_of_google_have_sections(tmp_path):
    path = write(
        tmp_path / "questions-words.txt", ": family", "boy girl king queen", "boy", ": gram8-plural", "a b c d"
    )
    analogies, left_out = read_google_analogies(path)
    assert [(one.words, one.section) for one in analogies] == [
        (("boy", "girl", "king", "queen"), "family"),
        (("a", "b", "c", "d"), "gram8-plural"),
    ]
    assert [skip.item for skip in left_out] == ["questions-words.txt:3"]


def test_analogies_of_microsoft_are_in_one_file_or_two(tmp_path):
    questions = write(tmp_path / "word_relationship.questions", "good better rough", "good better", "big bigger old")
    answers = write(tmp_path / "word_relationship.answers", "JJ_JJR rougher", "JJ_JJR rougher", "JJ_JJR older")
    one = write(
        tmp_path / "EN-MSR.txt", "good better rough JJ_JJR rougher", "good better rough", "big bigger old older"
    )
    expected = [("good", "better", "rough", "rougher"), ("big", "bigger", "old", "older")]
    for analogies, left_out in (read_msr_questions(questions, answers), read_msr_analogies(one)):
        assert [analogy.words for analogy in analogies] == expected
        assert [skip.item.rpartition(":")[2] for skip in left_out] == ["2"]
    with pytest.raises(ConfigError, match="belong together"):
        read_msr_questions(questions, write(answers, "JJ_JJR rougher"))


# --- all of them ---


def test_a_missing_file_and_one_in_another_encoding_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*ratings\.txt"):
        read_scws(tmp_path / "ratings.txt")
    (tmp_path / "ratings.txt").write_bytes("1\tnaïf".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"cannot read .*ratings\.txt"):
        read_scws(tmp_path / "ratings.txt")


@pytest.mark.parametrize("content", ["", "\n\n", "something else\n"])
def test_a_file_without_any_item_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_text(content)
    for read in (read_scws, read_usim, read_cosimlex, read_sts, read_stsb, read_paws, read_google_analogies):
        with pytest.raises(ConfigError, match="original file"):
            read(path)
    with pytest.raises(ConfigError, match="original file"):
        read_similarities(path, Layout("file"))


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1\tOne\tTwo\n")
    assert gold(read_sts(tmp_path / "a")) == [1]


def test_words_are_counted_from_zero_and_not_backwards():
    assert token_span("a  bc", 1) == (3, 5)
    for index in (-1, 2):
        with pytest.raises(ValueError, match="there is no word"):
            token_span("a  bc", index)


def test_marks_are_taken_from_the_text_wherever_they_are():
    assert unmarked("<b>a</b><b> b c </b>-d", "b", marks=2) == ("ab c-d", [(0, 1), (1, 4)])
