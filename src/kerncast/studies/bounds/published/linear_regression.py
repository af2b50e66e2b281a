"""Linear regression, exact at the anchors, with a fixed margin of 5 %."""

from dataclasses import dataclass

import numpy as np

from kerncast.studies.bounds.base import BoundAnswer, BoundQuestion, Curve, Kind, Regressors, largest_of, regressors_of
from kerncast.studies.bounds.published.calibration import affine_through, with_margin

#: Section 3.6.
_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class LinearRegressionMargin:
    """Scikit-learn's LinearRegression on standardised features and times, aligned at the anchors, x 1.05 between.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.4.2 and 3.6. "Linearly
    scaling" is read as the affine calibration of its section 3.8, which aligns two anchors exactly. Fails where the
    curve between the anchors is more than 5 % above the calibrated forecast, such as on a staircase.
    """

    name: str = "linear-regression"
    kind: Kind = Kind.MARGIN
    has_base_model: bool = True

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the calibrated regression with its margin."""
        raw = linear_regression(regressors_of(question))
        calibrated = affine_through(raw, largest_of(question.measured)).applied_to(raw)
        return with_margin(calibrated, question, _MARGIN)


def linear_regression(regressors: Regressors) -> Curve:
    """Return the forecast times in seconds of all counts, by least squares over the launches learned from."""
    from sklearn.linear_model import LinearRegression  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    features, times = StandardScaler(), StandardScaler()
    scaled_times = times.fit_transform(regressors.training_seconds[:, np.newaxis])
    model = LinearRegression().fit(features.fit_transform(regressors.training_values), scaled_times)
    forecast = times.inverse_transform(model.predict(features.transform(regressors.values)))
    return Curve(regressors.counts, tuple(forecast[:, 0].tolist()))
