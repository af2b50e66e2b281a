"""Code of this CPU for what instructions compute."""
