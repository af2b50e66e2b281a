"""VERB check up: is everything here that forecasts need, and does one come about?"""

from kerncast.checkup.report import Checkup, check_up

__all__ = ["Checkup", "check_up"]
