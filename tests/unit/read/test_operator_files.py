"""Tables of operators and models: what is read, what is refused, and where."""

import json
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.read.operator_files import OperatorTable, is_model, is_table_of_operators, operators_in, read_operators
from kerncast.read.selection import Selection

TABLE = """op,B,M,N,K,H,dtype,time_us
bmm,64,512,512.0,64,,fp32,12
softmax,32,,,,1024,,3
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_is_read_as_data_sets_write_it(tmp_path: Path) -> None:
    path = written(tmp_path, "ops.csv", TABLE)
    assert is_table_of_operators(path)
    found = read_operators(path)
    texts = ["bmm(B=64, M=512, N=512, K=64, dtype=fp32)", "softmax(B=32, H=1024, dtype=fp32)"]
    assert [each.text for each in found.operators] == texts
    assert [each.index for each in found.operators] == [0, 1]
    assert not found.is_model


def test_rows_without_data_are_refused_by_name_and_the_others_read(tmp_path: Path) -> None:
    found = read_operators(written(tmp_path, "ops.csv", TABLE + "conv,1,,,,,,1\nsoftmax,1,,,,2,fp8,1\n"))
    assert [each.index for each in found.operators] == [0, 1]
    assert [(each.kernel, each.launch) for each in found.refused] == [("conv", 2), ("softmax", 3)]
    assert "no measured data cover" in found.refused[0].reason


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("gemm,,,,,1,1,1,nvfp4,,,", "the number format 'nvfp4'"),
        ("moe,,,,,,,,,zipf,,", "routing 'zipf'"),
        ("attention,1,2,3,,,,,,,1,", "step=1"),
        ("decode,1,,3,,,,,,,5,4", "beam_width=4"),
    ],
)
def test_unknown_words_and_cases_refuse_their_row_only(tmp_path: Path, row: str, reason: str) -> None:
    header = "op,B,S,H,topk,M,N,K,dtype,routing,step,beam_width,T,F,E\n"
    rows = f"softmax,1,,2,,,,,,,,,,,\n{row},1,1,1\nsoftmax,1,,3,,,,,,,,,,,\n".replace("moe,,,,", "moe,,,1,1")
    found = read_operators(written(tmp_path, "ops.csv", header + rows))
    assert [each.index for each in found.operators] == [0, 2]
    [refused] = found.refused
    assert refused.launch == 1
    assert reason in refused.reason


def test_malformed_numbers_end_the_reading_beside_unknown_words(tmp_path: Path) -> None:
    path = written(tmp_path, "ops.csv", "op,B,H,dtype\nsoftmax,1,x,nvfp4\n")
    with pytest.raises(InputError, match="line 2: H is 'x'"):
        read_operators(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op,B,H\nsoftmax,1\n", "line 2: the row does not have 3 cells"),
        ("op,B,H\nsoftmax,1,2,3\n", "line 2: the row does not have 3 cells"),
        ("op,B,H\nsoftmax,1,-2\n", "line 2: H is -2"),
        ("op,B,b,H\nsoftmax,1,1,2\n", "two columns are called 'b'"),
        ("op,B,H\n", "holds no operator"),
        ('op,B,H\nsoftmax,1,"2\n', "not a CSV"),
        ('"op,B",H\nsoftmax,1\n', "has no column 'op'"),
        ("\nop,B,H\nsoftmax,1,2\n", "has no column 'op'"),
    ],
)
def test_faulty_tables_name_their_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_operators(written(tmp_path, "ops.csv", text))


def test_a_model_is_a_list_with_counts(tmp_path: Path) -> None:
    model = {
        "operators": [{"op": "linear", "M": 512, "N": 4096, "K": 4096, "dtype": "bf16", "count": 32, "name": "mlp"}]
    }
    path = written(tmp_path, "model.json", json.dumps(model))
    assert is_model(path)
    found = read_operators(path)
    assert found.is_model
    assert [(each.count, each.label) for each in found.operators] == [(32, "mlp")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"operators": []}, "holds no operator"),
        ({"operators": [1]}, "operator 0: op is 1"),
        ({"operators": [{"B": 1}]}, "operator 0: op is missing"),
        ({"operators": [{"op": "softmax", "B": [1], "H": 2}]}, "operator 0: b is a list"),
        ({"operators": [{"op": "softmax", "B": 1, "H": True}]}, "operator 0: h is True"),
        (
            {"operators": [{"op": "softmax", "B": 1, "H": 2, "dytpe": "fp32"}]},
            "operator 0: softmax has no dytpe. Known: B",
        ),
        ({"operators": [{"op": "softmax", "B": 1, "b": 1, "H": 2}]}, "operator 0: 'b' stands twice"),
        ({"operators": [{"op": "softmax", "B": 1, "rows": 1, "H": 2}]}, "operator 0: b and rows of softmax mean"),
        ({"operators": [[1]]}, "operator 0: op is a list"),
        ({"operators": {}}, "has no list"),
    ],
)
def test_faulty_models_name_their_place(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_operators(written(tmp_path, "model.json", json.dumps(content)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"operators": [{"op": "softmax", "B": 1, "B": 2, "H": 2}]}', "operator 0: 'b' stands twice in one object"),
        ('{"operators": [], "operators": [{"op": "ln", "B": 1, "H": 2}]}', "'operators' stands twice in one object"),
    ],
)
def test_keys_of_json_stand_once(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_operators(written(tmp_path, "model.json", text))


def test_a_list_alone_is_a_model(tmp_path: Path) -> None:
    path = written(tmp_path, "model.json", '[{"op": "softmax", "B": 1, "H": 2, "count": 3}, {"op": "conv"}]')
    assert is_model(path)
    found = read_operators(path)
    assert (found.is_model, [each.count for each in found.operators]) == (True, [3])
    assert [(each.kernel, each.launch) for each in found.refused] == [("conv", 1)]


def test_names_do_not_steer_a_terminal(tmp_path: Path) -> None:
    rows = [{"op": "softmax", "B": 1, "H": 2, "name": "\x1b[2J"}, {"op": "\x1b[2J"}]
    found = read_operators(written(tmp_path, "model.json", json.dumps(rows)))
    assert (found.operators[0].label, found.refused[0].kernel) == ("\\x1b[2J", "\\x1b[2J")


def places(table: OperatorTable) -> tuple[list[int], list[int]]:
    return [each.index for each in table.operators], [each.launch for each in table.refused]


@pytest.mark.parametrize(
    ("selection", "operators", "refused"),
    [
        (Selection(), [0, 1, 3, 4], [2, 5]),
        (Selection("softmax"), [0, 4], []),
        (Selection("softmax(B=1, H=2, dtype=fp32)"), [0], []),
        (Selection("softmax(B=1,H=2,dtype=fp32)"), [0], []),
        (Selection("first norm"), [1], []),
        (Selection("regex:norm$"), [1, 3], []),
        (Selection("regex:^(conv|ln)$"), [1, 3], [2]),
        (Selection("generation_attention"), [], [5]),
        (Selection("cached"), [], [5]),
        (Selection(skip=1, count=3), [1, 3], [2]),
        (Selection("softmax", skip=1), [4], []),
    ],
)
def test_operators_are_selected_like_launches(
    tmp_path: Path, selection: Selection, operators: list[int], refused: list[int]
) -> None:
    rows = [
        {"op": "softmax", "B": 1, "H": 2}, {"op": "ln", "B": 1, "H": 2, "name": "first norm"}, {"op": "conv"},
        {"op": "layernorm", "B": 1, "H": 3, "name": "last norm"}, {"op": "softmax", "B": 1, "H": 4},
        {"op": "decode", "B": 1, "S": 2, "H": 3, "dtype": "nvfp4", "name": "cached"},
    ]  # fmt: skip
    table = read_operators(written(tmp_path, "model.json", json.dumps(rows)))
    found = table.selected(selection, "model.json")
    assert places(found) == (operators, refused)
    assert len(found.refused_kinds) == len(refused)
    assert found.is_model


def test_a_selection_of_nothing_says_what_there_is(tmp_path: Path) -> None:
    table = read_operators(written(tmp_path, "ops.csv", TABLE))
    with pytest.raises(InputError, match=r"ops.csv: no kernel is called 'conv'. It holds bmm, softmax"):
        table.selected(Selection("conv"), "ops.csv")
    with pytest.raises(InputError, match="every launch is skipped"):
        table.selected(Selection(skip=9), "ops.csv")


def test_other_files_are_no_operators(tmp_path: Path) -> None:
    assert not is_table_of_operators(written(tmp_path, "times.csv", "gpu,seconds\nT4,1\n"))
    assert not is_table_of_operators(tmp_path / "missing.csv")
    assert not is_model(written(tmp_path, "cache.json", '{"cache": {}}'))
    assert not is_model(written(tmp_path, "cut.json", '{"operators": ['))
    assert not is_model(written(tmp_path, "list.json", '[1, {"B": 1}]'))


def test_texts_are_numbered() -> None:
    found = operators_in(["softmax(B=1,H=2)", "conv(B=1)", "ln(B=1,H=2)"])
    assert [each.index for each in found.operators] == [0, 2]
    assert [each.launch for each in found.refused] == [1]
