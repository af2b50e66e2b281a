"""NOUN GPU: what is known of a chip and of its architecture, and the files that say so."""
