"""Users' own files, and every fault that a file can have."""

import os
from pathlib import Path

import pytest

from kerncast.errors import GPUError
from kerncast.gpu import DATA, Rate, Status, load_gpu, resolve_gpu

SMALL = """
from = "sm_86"
sm_count = 30
clock_boost_mhz = 1425
dram_gb_per_s = 288
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(name: str | Path) -> str:
    with pytest.raises(GPUError) as caught:
        load_gpu(name)
    return str(caught.value)


# --- users' own files -----------------------------------------------------------------------------


def test_a_small_file_suffices(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    gpu, caveats = resolve_gpu(str(path))
    assert caveats == ()
    assert (gpu.id, gpu.name, gpu.sm_count) == ("mine", "mine", 30)
    assert gpu.l2_bytes is None
    assert gpu.memory_bytes is None
    assert gpu.dram_rate == Rate(0.91 * 288e9, is_measured=False)
    assert gpu.facts[0].sources == ("mine.toml",)
    assert gpu.facts[0].status is Status.SINGLE_SOURCE
    assert load_gpu(path) == gpu


def test_sections_and_plain_numbers(tmp_path: Path) -> None:
    text = 'name = "Mine"\nfrom = "sm_90"\n[peak]\nsm_count = 8\nclock_boost_mhz = 1000.5\ndram_gb_per_s = 100\n'
    gpu = load_gpu(write(tmp_path, text + "[sustained]\ndram_gb_per_s = 90\n"))
    assert gpu.name == "Mine"
    assert gpu.dram_rate == Rate(90e9, is_measured=True)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    assert load_gpu(path).sm_count == 30
    write(tmp_path, SMALL.replace("30", "31"))
    assert load_gpu(path).sm_count == 31


def test_a_shipped_file_works_as_a_path() -> None:
    path = DATA / "gpus" / "h200.toml"
    assert load_gpu(path) == load_gpu("h200")


def test_own_architecture(tmp_path: Path) -> None:
    write(
        tmp_path,
        'from = "sm_70"\ncompute_capability = "7.2"\n[limits]\nmax_blocks_per_sm = 8\n',
        "sm_72.toml",
    )
    gpu = load_gpu(write(tmp_path, SMALL.replace("sm_86", "sm_72.toml")))
    assert gpu.architecture.id == "sm_72"
    assert gpu.compute_capability == "7.2"
    assert gpu.architecture.max_blocks_per_sm == 8
    assert gpu.architecture.registers_per_sm == 65536


def test_unknown_cancels_an_inherited_value(tmp_path: Path) -> None:
    text = 'from = "sm_70"\n[sustained]\ndram_fraction = { status = "unknown" }\n'
    write(tmp_path, text, "sm_72.toml")
    gpu = load_gpu(write(tmp_path, SMALL.replace("sm_86", "sm_72.toml")))
    assert gpu.architecture.sustained_dram_fraction is None
    assert gpu.dram_rate is None


def test_a_gpu_may_differ_from_its_architecture(tmp_path: Path) -> None:
    text = SMALL + "[lanes]\nfp64_per_sm = 4\n[cycles]\nfp64 = 32\ntensor = { status = 'unknown' }\n"
    gpu = load_gpu(write(tmp_path, text))
    assert gpu.peak_fp64_flops_per_s == 2 * 4 * 30 * 1425e6
    assert (gpu.architecture.id, gpu.architecture.cycles.fp64, gpu.architecture.cycles.tensor) == ("sm_86", 32, None)
    facts = [fact for fact in gpu.all_facts if fact.key == "lanes.fp64_per_sm"]
    assert [(fact.value, fact.sources) for fact in facts] == [(4, ("mine.toml",))]
    assert load_gpu("rtx-3090").architecture.fp64_lanes_per_sm == 2


def test_a_gpu_may_differ_from_a_users_own_architecture(tmp_path: Path) -> None:
    write(tmp_path, 'from = "sm_70"\n[lanes]\nfp64_per_sm = 2\n[cycles]\nfp64 = 64\n', "slow.toml")
    gpu = load_gpu(write(tmp_path, SMALL.replace("sm_86", "slow.toml") + "[lanes]\nfp64_per_sm = 8\n"))
    assert (gpu.architecture.fp64_lanes_per_sm, gpu.architecture.cycles.fp64) == (8, 64)


def test_names_are_facts_too(tmp_path: Path) -> None:
    gpu = load_gpu(write(tmp_path, SMALL + "chip = 'GA106'\nlaunch_year = 2021\n"))
    facts = {fact.key: (fact.value, fact.unit) for fact in gpu.facts}
    assert facts["peak.chip"] == ("GA106", "1")
    assert facts["peak.launch_year"] == (2021, "year")


# --- faulty files ---------------------------------------------------------------------------------

HEAD = 'from = "sm_86"\n[sources]\na = "A"\nb = "B"\n'
FULL = HEAD + "[peak]\nclock_boost_mhz = 1000\ndram_gb_per_s = 100\nsm_count = "


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("-3", "peak.sm_count is -3 (give a whole number above 0"),
        ("0", "peak.sm_count is 0"),
        ("2.5", "peak.sm_count is 2.5"),
        ("true", "peak.sm_count is True"),
        ('"80"', "peak.sm_count is '80'"),
        ("nan", "peak.sm_count is nan"),
        ("1" + "0" * 400, "peak.sm_count is 1000"),
        ("1" + "0" * 5000, "not a readable TOML file"),
        ("0x" + "f" * 5000, "peak.sm_count is an integer of thousands of digits"),
        ("10001", "peak.sm_count is 10001 (give a whole number from 1 to 10,000 (unit 1))"),
        ("[80]", "peak.sm_count is [80]"),
        ("{ value = 80 }", "has the status None (write confirmed"),
        ('{ value = 80, source = "a", status = "sure" }', "has the status 'sure'"),
        ('{ value = 80, source = "c", status = "single-source" }', "has the source ['c'] (name entries"),
        ('{ value = 80, status = "single-source" }', "is single-source with 0 sources"),
        ('{ value = 80, source = "a", status = "confirmed" }', "is confirmed with 1 sources"),
        ('{ value = 80, source = ["a", "a"], status = "confirmed" }', "is confirmed with 1 sources"),
        ('{ source = "a", status = "single-source" }', "has no value"),
        ('{ value = 80, source = "a", status = "unknown" }', "is unknown and has a value"),
        ('{ status = "unknown" }', "peak.sm_count is missing"),
        (
            '{ value = 80, source = "a", status = "single-source", unit = "SM" }',
            "has the unknown part 'unit'",
        ),
    ],
)
def test_faulty_value(tmp_path: Path, entry: str, fault: str) -> None:
    message = refusal(write(tmp_path, FULL + entry))
    assert "mine.toml" in message
    assert fault in message


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        ("\nsm_counts = 4", "peak.sm_counts is not a known key (did you mean peak.sm_count?)"),
        (
            "\n[sustained]\ndram_gb_per_s = inf",
            "sustained.dram_gb_per_s is inf (give a finite number above 0",
        ),
        ("\n[sustained]\ndram_gb_per_s = 101", "sustained.dram_gb_per_s is above peak.dram_gb_per_s"),
        ("\n[sustained]\ndram_fraction = 1.1", "sustained.dram_fraction is 1.1 (give a number up to 1"),
        ("\n[sustained]\ndram_fraction = 1e-186", "dram_fraction is 1e-186 (give a number from 0.01 to 1 (unit 1))"),
        ("\nclock_base_mhz = 1200", "peak.clock_base_mhz is above peak.clock_boost_mhz"),
        ("\n[clocks]\nlow_mhz = 900", "of clocks.low_mhz and clocks.high_mhz one is missing (give both, or none)"),
        ("\n[clocks]\nlow_mhz = 800\nhigh_mhz = 990", "the clock under load is not within clocks.low_mhz"),
        ("\n[clocks]\ndefault_mhz = 700\nlow_mhz = 800\nhigh_mhz = 990", "the clock under load is not within"),
        ("\ndram_bus_bits = 64\ndram_gbit_per_s_per_pin = 12", "is 100, but data rate x bus width is 96"),
        ("\ndram_type = 'GDDR6 \\u001b[31m'", "(give a name of at most 40 letters)"),
        ("\nchip = 86", "peak.chip is 86"),
        ("\n[lanes]\nfp32_per_sm = 64", "lanes.fp32_per_sm is not a known key"),
        ("\n[cycles]\ntensor = -1", "cycles.tensor is -1"),
        ("\nfp32_gflops = 5000", "peak.fp32_gflops is 5000, but 2 x lanes x SMs x boost clock is 2560"),
        ("\nclock_base_mhz = 1.7", "peak.clock_base_mhz is 1.7 (give a number from 10 to 20,000 (unit MHz))"),
        ("\nl2_kib = 1e-300", "peak.l2_kib is 1e-300 (give a number from 16 to 67,108,864 (unit KiB))"),
        ("\ntdp_w = 1e400", "peak.tdp_w is inf (give a finite number above 0"),
        ("\n[sustained]\ndram_gb_per_s = 1e-300", "sustained.dram_gb_per_s is 1e-300 (give a number from 0.5"),
        ("\n[cycles]\nfp64 = 1e300", "cycles.fp64 is 1e+300 (give a number from 0.001 to 1,000,000 (unit cycle))"),
        ('\n"\\u001b[31m" = 1', "'peak.\\x1b[31m' is not a known key"),
        ("\n[lanes]\nfp64_per_sm = { status = 'unknown' }", "lanes.fp64_per_sm is missing"),
        (
            "\n[colour]\nred = 1",
            "colour is not a known key (the sections are caches, clocks, cycles, lanes, peak, sustained)",
        ),
    ],
)
def test_faulty_key(tmp_path: Path, addition: str, fault: str) -> None:
    assert fault in refusal(write(tmp_path, FULL + "10" + addition))


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ("", "from is missing"),
        ("from = 86\n", "from is 86"),
        ('from = "sm_85"\n', "no GPU or architecture is called 'sm_85'; the nearest are sm_8"),
        ('from = "nowhere.toml"\n', "nowhere.toml: this is not a readable TOML file"),
        ('from = "mine.toml"\n', "from leads back to mine.toml"),
        ('from = "sm_86"\nname = ""\n', "name is ''"),
        ('from = "sm_86"\nname = "\\u001b[31mred"\n', "name is '\\x1b[31mred' (give a text of one line"),
        (f'from = "sm_86"\nname = "{"x" * 101}"\n', "(give a text of one line, up to 100 letters)"),
        ('from = "sm_86"\nsources = { a = "\\u0007" }\n', "sources is not a table of texts"),
        ('from = "sm_86"\naliases = "x"\n', "aliases is 'x'"),
        ('from = "sm_86"\nsources = { a = 1 }\n', "sources is not a table of texts"),
        ('from = "sm_86"\npeak = 3\n', "peak is not a known key"),
        ('from = "sm_86"\n[peak]\nsm_count = 30\n[more]\n', "peak.clock_boost_mhz is missing"),
    ],
)
def test_faulty_head(tmp_path: Path, head: str, fault: str) -> None:
    body = "" if "[more]" in head else SMALL.partition("\n")[2].partition("\n")[2]
    assert fault in refusal(write(tmp_path, head + body))


def test_all_faults_at_once(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, "sm_count = -1\nclock_boost_mhz = nan\nspeed = 3\n"))
    parts = ("5 faults", "from is missing", "peak.dram_gb_per_s is missing", "peak.sm_count is -1")
    for part in (*parts, "peak.clock_boost_mhz is nan", "speed is not a known key"):
        assert part in message


def test_what_every_model_needs_is_named_at_once(tmp_path: Path) -> None:
    text = 'from = "sm_90"\nsm_count = 78\n[lanes]\nfp64_per_sm = { status = "unknown" }\n'
    message = refusal(write(tmp_path, text))
    for key in ("peak.clock_boost_mhz", "peak.dram_gb_per_s", "lanes.fp64_per_sm"):
        assert f"{key} is missing" in message


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    assert load_gpu(write(tmp_path, "\ufeff" + SMALL)).sm_count == 30


def test_a_key_given_twice(tmp_path: Path) -> None:
    assert "peak.sm_count is given twice" in refusal(write(tmp_path, SMALL + "[peak]\nsm_count = 30\n"))


@pytest.mark.parametrize("text", ["= 3", "a = ", '"' * 3, "[" * 5000, "\ufeffa"])
def test_no_toml(tmp_path: Path, text: str) -> None:
    assert "not a readable TOML file" in refusal(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SMALL + "#" * 300_000, "it holds more than 256 KiB"),
        ("a" + ".a" * 100_000 + " = 1", "a key has twenty dots or more"),
        ("a." * 21 + "a = 1", "a key has twenty dots or more"),
        ("x = " + "[" * 100_000, "it is nested too deeply"),
        ("x = " + "{a=" * 50_000, "it is nested too deeply"),
    ],
)
def test_files_that_would_take_long_to_parse(tmp_path: Path, text: str, reason: str) -> None:
    message = refusal(write(tmp_path, text))
    assert reason in message
    assert len(message) < 400


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path, kind in ((tmp_path / "pipe.toml", "pipe"), (Path("/dev/zero"), "device")):
        assert f"cannot be read (it is a {kind})" in refusal(path)


def test_unreadable_paths(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.toml").mkdir()
    for path in ("binary.toml", "folder.toml", "absent.toml", "x" * 5000 + ".toml", "null\0.toml"):
        message = refusal(f"{tmp_path}/{path}")
        assert "not a readable TOML file" in message
        assert len(message) < 1000


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('from = "sm_72.toml"\n', "from leads back to sm_72.toml"),
        ('compute_capability = "7.2"\n', "registers.per_sm is missing"),
        ('from = "sm_70"\ncompute_capability = "seven"\n', "compute_capability is 'seven'"),
        (
            'from = "sm_70"\n[shared]\ncarveouts_kib = [8, 0]\n',
            "shared.carveouts_kib is [8, 0] (give a list of asc",
        ),
        ('from = "sm_70"\n[shared]\ncarveouts_kib = [-8]\n', "shared.carveouts_kib is [-8]"),
        ('from = "sm_70"\n[shared]\nreserved_per_block_kib = -1\n', "of at least 0"),
        ('from = "sm_70"\n[shared]\nper_sm_kib = 64\n', "exceed shared.per_sm_kib"),
        ('from = "sm_70"\n[shared]\nper_block_kib = 97\n', "shared.per_block_kib is above"),
        (
            'from = "sm_70"\n[registers]\nper_sm = 32768\n',
            "registers.max_per_block is above registers.per_sm",
        ),
    ],
)
def test_faulty_architecture(tmp_path: Path, text: str, fault: str) -> None:
    write(tmp_path, text, "sm_72.toml")
    message = refusal(write(tmp_path, SMALL.replace("sm_86", "sm_72.toml")))
    assert "sm_72.toml" in message
    assert fault in message


def test_base_clock_unknown(tmp_path: Path) -> None:
    with pytest.raises(GPUError, match="base clock is unknown"):
        load_gpu(write(tmp_path, SMALL)).at_clock("base")
