"""Which features a model learns from: those of a table, those that correlate with the time, those of the paper."""

from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.feature_table import FeatureTable
from kerncast.read.feature_columns import derived
from kerncast.studies.correlation import Chosen, correlation, select
from kerncast.studies.recipes import Recipe

ALL, SELECTED, PUBLISHED, TIMELESS = "all", "selected", "published", "timeless"
#: Rules by name; what is none of them is a list of features.
RULES = (ALL, SELECTED, PUBLISHED, TIMELESS)


@dataclass(frozen=True, slots=True)
class FeatureChoice:
    """A rule by name, or features by name."""

    rule: str
    """all, selected, published, timeless (without what follows from the time or from cycles), or named"""
    names: tuple[str, ...] = ()
    """those that were named"""

    @classmethod
    def of(cls, text: str) -> "FeatureChoice":
        """Return the choice that a text means: a rule, or names with commas between them.

        >>> FeatureChoice.of("selected").rule, FeatureChoice.of("a, b").names
        ('selected', ('a', 'b'))
        """
        if text in RULES:
            return cls(text)
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        if not names or len(set(names)) < len(names):
            what = "names one twice" if names else "is empty"
            raise InputError(f"--features {what}", cure=f"Give {', '.join(RULES)}, or names with commas between them.")
        return cls("named", names)

    def __str__(self) -> str:
        return ",".join(self.names) if self.names else self.rule


def chosen_features(table: FeatureTable, choice: FeatureChoice, recipe: Recipe) -> tuple[str, ...]:
    """Return the features by name; raises InputError where a rule leaves none."""
    if choice.rule == PUBLISHED:
        return recipe.published_among(table.names, table.source)
    found = {
        ALL: lambda: table.names,
        TIMELESS: lambda: tuple(name for name in table.names if derived(name) is None),
        SELECTED: lambda: tuple(each.name for each in selection(table, recipe) if each.is_taken),
    }.get(choice.rule, lambda: choice.names)()
    if not found:
        what = f"--features {choice.rule} leaves none of {len(table.names)} features"
        raise InputError(what, where=table.source, cure="Take --features all, or name some.")
    return found


def selection(table: FeatureTable, recipe: Recipe) -> tuple[Chosen, ...]:
    """Return all features by the recipe's rule of selection, the strongest first."""
    return select(correlation(table), recipe.least_with_time, recipe.most_between)
