"""Tables of launches with features and times become a FeatureTable."""
