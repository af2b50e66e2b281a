"""ROOM web: the local page of ``kerncast serve``, and the warm process that forecasts what is typed into it."""
