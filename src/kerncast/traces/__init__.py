"""NOUN Trace, SMTrace, FootprintCurve: what one execution logged."""
