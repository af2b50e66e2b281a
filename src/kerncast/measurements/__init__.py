"""NOUN Measurement, PartitionTimes, FeatureTable: what was timed, and where."""
