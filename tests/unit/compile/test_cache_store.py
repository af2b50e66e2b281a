"""The store on disk: whole entries or none, a bound on its size, several processes, folders that are not ours."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kerncast.compile.cache import Place, Store, cache_place
from kerncast.compile.cache.store import unsafe
from kerncast.errors import InputError
from kerncast.units import KIB, MIB

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")

#: A process that keeps and reads entries whose payload follows from their key, until it has done so often enough.
WORK = """
import hashlib, random, sys
from pathlib import Path
from kerncast.compile.cache import Store
store = Store(Path(sys.argv[1]), int(sys.argv[2]))
choose, wrong = random.Random(int(sys.argv[3])), 0
for _ in range(int(sys.argv[4])):
    key = hashlib.sha256(str(choose.randrange(200)).encode()).hexdigest()
    expected = key.encode() * 40
    if choose.random() < 0.5:
        store.save(key, expected)
    else:
        wrong += store.load(key) not in (None, expected)
    if choose.random() < 0.02:
        store.clear()
sys.exit(wrong)
"""


def key_of(number: int) -> str:
    return f"{number:064x}"[::-1]


def payload_of(number: int) -> bytes:
    return bytes([number % 256]) * 1000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache" / "compiled", MIB)


def entry(store: Store, number: int = 1) -> Path:
    key = key_of(number)
    return store.folder / key[0] / f"{key}.entry"


def start(store: Store, seed: int, turns: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORK, store.folder, str(store.most_bytes), str(seed), str(turns)])


def test_what_was_kept_is_found_and_what_was_not_is_not(store: Store) -> None:
    assert store.load(key_of(1)) is None
    store.save(key_of(1), b"one")
    store.save(key_of(2), b"")
    assert [store.load(key_of(number)) for number in (1, 2, 3)] == [b"one", b"", None]
    assert store.usage().entries == 2


@posix
def test_nobody_else_may_read_it(store: Store) -> None:
    store.save(key_of(1), b"one")
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert entry(store).stat().st_mode & 0o777 == 0o600


def test_damage_anywhere_is_noticed_and_mended(store: Store) -> None:
    payload = bytes(range(256)) * 4
    store.save(key_of(1), payload)
    whole = entry(store).read_bytes()
    damages = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 13)]
    damages += [whole[:size] for size in (0, 1, 16, 17, 40, 49, len(whole) - 1)] + [whole + b"x", b"PK" * 2000]
    for damaged in damages:
        entry(store).write_bytes(damaged)
        assert store.load(key_of(1)) is None
        assert not entry(store).exists()
        store.save(key_of(1), payload)
        assert store.load(key_of(1)) == payload


def test_an_entry_under_another_name_is_no_entry(store: Store) -> None:
    store.save(key_of(1), b"one")
    entry(store, 17).parent.mkdir(exist_ok=True)
    entry(store).rename(entry(store, 17))
    assert store.load(key_of(17)) is None


@posix
def test_a_link_or_a_folder_in_the_place_of_an_entry(store: Store, tmp_path: Path) -> None:
    store.save(key_of(1), b"one")
    precious = tmp_path / "precious"
    precious.write_bytes(entry(store).read_bytes())
    entry(store).unlink()
    entry(store).symlink_to(precious)
    assert store.load(key_of(1)) is None
    assert precious.exists()
    assert not entry(store).is_symlink()
    entry(store).mkdir()
    assert store.load(key_of(1)) is None
    (entry(store, 2)).mkdir(parents=True)
    (entry(store, 2) / "file").touch()
    assert store.load(key_of(2)) is None
    store.save(key_of(2), b"two")
    assert store.load(key_of(2)) is None
    entry(store, 3).parent.mkdir(exist_ok=True)
    os.mkfifo(entry(store, 3))
    assert store.load(key_of(3)) is None


def test_the_bound_holds_and_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "compiled", 16 * 10 * KIB)
    for number in range(400):
        store.save(key_of(number), payload_of(number))
        assert store.usage().bytes <= store.most_bytes
        store.load(key_of(0))
    assert store.load(key_of(0)) == payload_of(0)
    kept = [number for number in range(400) if store.load(key_of(number)) is not None]
    assert 100 < len(kept) < 160
    assert kept[1] > 150


def test_what_is_larger_than_its_part_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "compiled", 16 * KIB)
    store.save(key_of(1), b"x" * 2000)
    assert store.usage().entries == 0


def test_what_a_killed_process_left_goes_after_an_hour(store: Store) -> None:
    store.save(key_of(1), b"one")
    old, new = (entry(store).with_name(f"{key_of(1)}.{name * 16}.part") for name in "ab")
    for path, age in ((old, 3700), (new, 10)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    store.save(key_of(1), b"one")
    assert (old.exists(), new.exists()) == (False, True)


@posix
def test_processes_that_are_killed_leave_a_store_that_works(store: Store) -> None:
    for seed in range(4):
        process = start(store, seed, 10**6)
        deadline = time.monotonic() + 300
        while not store.usage().entries and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05 * seed)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert start(store, seed + 100, 300).wait() == 0
    store.save(key_of(1), b"one")
    assert store.load(key_of(1)) == b"one"


def test_eight_processes_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "compiled", 16 * 20 * KIB)
    processes = [start(store, seed, 300) for seed in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    store.save(key_of(1), b"one")
    assert store.usage().bytes <= store.most_bytes


def test_clearing_removes_only_its_own(store: Store, tmp_path: Path) -> None:
    for number in range(5):
        store.save(key_of(number), b"x")
    foreign = entry(store).with_name("notes.txt")
    foreign.write_text("mine", encoding="utf-8")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{key_of(9)}.entry").write_text("mine", encoding="utf-8")
    if os.name == "posix":
        (store.folder / "a").symlink_to(outside)
    assert store.clear() == 5
    assert foreign.read_text(encoding="utf-8") == "mine"
    assert (outside / f"{key_of(9)}.entry").exists()
    assert store.clear() == 0


def test_clearing_leaves_nothing_behind(store: Store) -> None:
    store.save(key_of(1), b"one")
    assert store.clear() == 1
    assert list(store.folder.parent.iterdir()) == []


def test_a_store_that_was_filled_while_it_was_cleared_is_used_again(store: Store) -> None:
    store.save(key_of(1), b"one")
    (store.folder / "CACHEDIR.TAG").unlink()  # as clearing does, and an entry is there before it removes the folder
    assert store.clear() == 0
    store.save(key_of(2), b"two")
    assert [store.load(key_of(number)) for number in (1, 2)] == [b"one", b"two"]
    assert store.why_unusable() is None
    assert store.clear() == 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_user_is_not_used(store: Store) -> None:
    store.save(key_of(1), b"one")
    os.chown(next(store.folder.glob("*/*.entry")), 12345, -1)
    assert store.load(key_of(1)) is None


def test_a_folder_of_somebody_elses_is_left_alone(store: Store) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "thesis.tex").write_text("mine", encoding="utf-8")
    store.save(key_of(1), b"one")
    assert [each.name for each in store.folder.iterdir()] == ["thesis.tex"]
    assert store.why_unusable() == "it holds files, but is not a cache of kerncast"
    assert store.clear() == 0


@posix
def test_a_folder_that_others_may_write_to_is_not_used(store: Store) -> None:
    store.save(key_of(1), b"one")
    store.folder.chmod(0o770)
    assert store.load(key_of(1)) is None
    assert store.why_unusable() == "others may write to it"
    store.folder.chmod(0o755)
    assert store.load(key_of(1)) == b"one"


@posix
def test_a_link_in_the_place_of_the_folder_is_not_used(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    store.folder.parent.mkdir()
    store.folder.symlink_to(target)
    store.save(key_of(1), b"one")
    assert list(target.iterdir()) == []
    assert store.why_unusable() == "it is not a folder"


def test_a_question_makes_no_folder(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "compiled", 2**20)
    assert store.why_unusable() is None
    assert not (tmp_path / "new").exists()


@posix
def test_a_folder_of_another_user_is_unsafe(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(key_of(1), b"one")
    if os.geteuid() == 0:
        os.chown(store.folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert unsafe(store.folder) == "it belongs to somebody else"
    assert store.load(key_of(1)) is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_a_place_that_cannot_be_written_to_does_no_harm() -> None:
    store = Store(Path("/proc/kerncast/compiled"), MIB)
    store.save(key_of(1), b"one")
    assert store.load(key_of(1)) is None
    assert store.usage().entries == store.clear() == 0
    assert store.why_unusable()


def test_a_full_disk_does_no_harm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(key_of(1), b"one")

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    store.save(key_of(1), b"two")
    assert store.load(key_of(1)) == b"one"
    assert [each.suffix for each in entry(store).parent.iterdir()] == [".entry"]


def test_a_tag_that_was_not_finished_is_finished(store: Store) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "CACHEDIR.TAG").write_bytes(b"Signature")
    (store.folder / f"{key_of(0)}.{'0' * 16}.part").touch()
    store.save(key_of(1), b"one")
    assert store.load(key_of(1)) == b"one"
    assert (store.folder / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def place(monkeypatch: pytest.MonkeyPatch, **variables: str | None) -> Place:
    for name in ("KERNCAST_CACHE", "KERNCAST_CACHE_MB", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    return cache_place()


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, other = tmp_path / "named", tmp_path / "xdg"
    monkeypatch.setattr(sys, "platform", "linux")
    assert place(monkeypatch, KERNCAST_CACHE=str(named), XDG_CACHE_HOME=str(other)).folder == named / "compiled"
    assert place(monkeypatch, XDG_CACHE_HOME=str(other)).folder == other / "kerncast" / "compiled"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    home = tmp_path / ".cache" / "kerncast" / "compiled"
    assert place(monkeypatch, XDG_CACHE_HOME="relative").folder == home
    assert place(monkeypatch).folder == home
    assert place(monkeypatch, KERNCAST_CACHE="~/here").folder == tmp_path / "here" / "compiled"
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "nowhere"))
    assert place(monkeypatch).folder is None, "a home that is not there is not made"
    monkeypatch.setattr(sys, "platform", "win32")
    local = tmp_path / "local"
    assert place(monkeypatch, LOCALAPPDATA=str(local)).folder == local / "kerncast" / "cache" / "compiled"


def test_how_large_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(monkeypatch, KERNCAST_CACHE="/x").most_bytes == 256 * MIB
    assert place(monkeypatch, KERNCAST_CACHE="/x", KERNCAST_CACHE_MB="3").most_bytes == 3 * MIB
    assert place(monkeypatch, KERNCAST_CACHE="OFF").folder is None
    assert place(monkeypatch, KERNCAST_CACHE="/x", KERNCAST_CACHE_MB="0").folder is None
    for wrong in ("-1", "1.5", "many", "nan", "9" * 30, "٣"):
        with pytest.raises(InputError, match="is not a size"):
            place(monkeypatch, KERNCAST_CACHE_MB=wrong)


def test_without_a_home_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "no home folder" in str(place(monkeypatch).why_not)
