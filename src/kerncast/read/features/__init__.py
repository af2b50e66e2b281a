"""Tables of launches with features and times become a FeatureTable."""

from kerncast.read.features.cleaning import CleaningRules, CleanTable, DataFile, Why, modified_z_scores
from kerncast.read.features.columns import Derived, derived, roles_of
from kerncast.read.features.profiled import ProfiledMeans, read_profiled_means
from kerncast.read.features.table_files import read_feature_table

__all__ = [
    "CleanTable", "CleaningRules", "DataFile", "Derived", "ProfiledMeans", "Why", "derived", "modified_z_scores",
    "read_feature_table", "read_profiled_means", "roles_of",
]  # fmt: skip
