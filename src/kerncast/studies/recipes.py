"""NOUN Recipe: models with their settings as a paper gives them, from a data file, so that they can be made again."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kerncast.bounded_file import our_table
from kerncast.errors import InputError
from kerncast.gpu import DATA
from kerncast.models.learned.tuning import Setting, Settings

_FOLDER = DATA / "recipes"


@dataclass(frozen=True, slots=True)
class ModelRecipe:
    """One model and its settings."""

    name: str
    title: str
    """title in the paper's tables"""
    estimator: str
    """name of the class in scikit-learn"""
    scales_features: bool
    scales_times: bool
    settings: Settings
    most_rows: int | None
    """most launches to train on, drawn at random; None: all"""
    grid: tuple[tuple[str, tuple[Setting, ...]], ...] = ()
    """values to try of each setting when it is tuned, the published one first"""
    base: str | None = None
    """feature with ln(simulated time / 1 µs): the model learns the ratio to it; None: it learns the time"""

    @property
    def choices(self) -> tuple[Settings, ...]:
        """Every choice of the grid; the first is the published one."""
        names = [name for name, _ in self.grid]
        every = itertools.product(*(values for _, values in self.grid))
        return tuple(tuple(zip(names, values, strict=True)) for values in every)


@dataclass(frozen=True, slots=True)
class PublishedFeature:
    """A feature that the paper chose."""

    name: str
    also: tuple[str, ...]
    """names in other tools and versions, or the nearest counter that they have"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The models of one paper, their data split and their features."""

    name: str
    title: str
    seed: int
    test_share: float
    least_with_time: float
    """least correlation of a selected feature with the time"""
    most_between: float
    """largest correlation of two selected features"""
    published: tuple[PublishedFeature, ...]
    models: tuple[ModelRecipe, ...]
    base: str | None = None
    """feature with ln(simulated time / 1 µs), of a recipe of residuals"""

    def model(self, name: str) -> ModelRecipe:
        """Return one model; raises InputError for one that is not in it."""
        found = next((model for model in self.models if model.name == name), None)
        if found is None:
            known = ", ".join(model.name for model in self.models)
            raise InputError(f"no model of {self.name} is called {name[:40]!r}", cure=f"Known are {known}, all.")
        return found

    def published_among(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the features that the paper chose, as a table calls them; raises InputError for those it lacks."""
        found = [next((n for n in (each.name, *each.also) if n in names), None) for each in self.published]
        missing = [each.name for each, name in zip(self.published, found, strict=True) if name is None]
        if missing:
            cure = "Profile them, or take --features all or selected."
            raise InputError(f"it lacks the published features {', '.join(missing)}", where=where, cure=cure)
        return tuple(name for name in found if name)


def known_recipes() -> tuple[str, ...]:
    """Return the names of the recipes, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def load_recipe(name: str) -> Recipe:
    """Return a recipe by its name; raises InputError for one that is not known."""
    if name not in known_recipes():
        raise InputError(f"no recipe is called {name[:40]!r}", cure=f"Known are {', '.join(known_recipes())}.")
    table = our_table(_FOLDER / f"{name}.toml")
    return Recipe(
        name=name,
        title=table["title"],
        seed=table["seed"],
        test_share=table["test_share"],
        least_with_time=table["selection"]["least_with_time"],
        most_between=table["selection"]["most_between"],
        published=tuple(PublishedFeature(each["name"], tuple(each["also"])) for each in table.get("published", ())),
        models=tuple(_model(each, table.get("base")) for each in table["model"]),
        base=table.get("base"),
    )


def _model(table: Mapping[str, Any], base: str | None) -> ModelRecipe:
    return ModelRecipe(
        name=table["name"],
        title=table["title"],
        estimator=table["estimator"],
        scales_features=table["scales_features"],
        scales_times=table["scales_times"],
        settings=tuple((key, _setting(value)) for key, value in table.get("settings", {}).items()),
        most_rows=table.get("most_rows"),
        grid=tuple((key, tuple(map(_setting, values))) for key, values in table.get("grid", {}).items()),
        base=base,
    )


def _setting(value: Any) -> Setting:
    found: Setting = tuple(value) if isinstance(value, list) else value
    return found
