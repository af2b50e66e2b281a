"""A small neural network that forecasts the 80 % quantile of the time."""

from dataclasses import dataclass

import numpy as np

from kerncast.studies.bounds.base import (
    BoundAnswer,
    BoundQuestion,
    Curve,
    Floats,
    Kind,
    Regressors,
    regressors_of,
    standard_scale,
)
from kerncast.studies.bounds.published.calibration import with_margin

#: Section 3.4.2, and section 4.2.2 for the quantile.
_WIDTHS = (64, 32, 1)
_QUANTILE = 0.8
#: Not in the report: how long and how fast it learns.
_STEPS, _BATCH, _RATE = 2000, 256, 3e-3
#: Adam's own (Kingma and Ba, 2015).
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8
_SEED = 0


@dataclass(frozen=True, slots=True)
class QuantileNetwork:
    """64 and 32 ReLU units and a linear output on scaled features, trained with the pinball loss at 80 %.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.4.2 and 4.2.2. Neither
    calibration nor margin is stated: the forecast is the bound. Fails by design for one time in five of those it
    learned from, and without limit for applications unlike those (317 % off for one of the report's two).
    """

    name: str = "quantile-network"
    kind: Kind = Kind.MARGIN
    has_base_model: bool = True

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the forecast quantile; exact at the anchors."""
        raw = quantile_network(regressors_of(question))
        return with_margin(Curve(raw.counts, tuple(max(0.0, each) for each in raw.seconds)), question, 0.0)


def quantile_network(regressors: Regressors) -> Curve:
    """Return the forecast quantiles in seconds of all counts, by a network trained on the launches learned from."""
    features, times = regressors.training_values, regressors.training_seconds
    middle, scale = features.mean(axis=0), standard_scale(features)
    time_middle, time_scale = times.mean(), float(standard_scale(times))
    layers = _trained((features - middle) / scale, (times - time_middle) / time_scale)
    forecast = _forward(layers, (regressors.values - middle) / scale)[-1][:, 0] * time_scale + time_middle
    return Curve(regressors.counts, tuple(forecast.tolist()))


@dataclass(frozen=True, slots=True)
class _Layer:
    weights: Floats
    biases: Floats


def pinball_gradient(forecast: Floats, truth: Floats, quantile: float = _QUANTILE) -> Floats:
    """Return the derivative of the pinball loss by the forecast: ``-q`` where it is too low, ``1 - q`` elsewhere.

    >>> pinball_gradient(np.array([1.0, 3.0]), np.array([2.0, 2.0])).round(3).tolist()
    [-0.8, 0.2]
    """
    return np.where(forecast < truth, -quantile, 1 - quantile)


def _trained(values: Floats, truth: Floats) -> list[_Layer]:
    generator = np.random.default_rng(_SEED)
    layers, inputs = [], values.shape[1]
    for width in _WIDTHS:
        layers.append(_Layer(generator.normal(0, np.sqrt(2 / inputs), (inputs, width)), np.zeros(width)))
        inputs = width
    state = [(np.zeros_like(part), np.zeros_like(part)) for layer in layers for part in (layer.weights, layer.biases)]
    for step in range(1, _STEPS + 1):
        rows = generator.integers(0, len(values), _BATCH) if len(values) > _BATCH else slice(None)
        gradients = _gradients(layers, values[rows], truth[rows])
        rate = _RATE * (1 - (step - 1) / _STEPS)
        parts = [part for layer in layers for part in (layer.weights, layer.biases)]
        for part, gradient, (mean, square) in zip(parts, gradients, state, strict=True):
            _adam(part, gradient, (mean, square), (rate, step))
    return layers


def _forward(layers: list[_Layer], values: Floats) -> list[Floats]:
    """Return the input and what leaves each layer."""
    outputs = [values]
    for number, layer in enumerate(layers):
        signal = outputs[-1] @ layer.weights + layer.biases
        outputs.append(signal if number == len(layers) - 1 else np.maximum(signal, 0))
    return outputs


def _gradients(layers: list[_Layer], values: Floats, truth: Floats) -> list[Floats]:
    """Return the derivatives of the mean loss by weights and biases, layer by layer."""
    outputs = _forward(layers, values)
    error = pinball_gradient(outputs[-1], truth[:, np.newaxis]) / len(truth)
    found: list[Floats] = []
    for number in range(len(layers) - 1, -1, -1):
        found = [outputs[number].T @ error, error.sum(axis=0), *found]
        error = (error @ layers[number].weights.T) * (outputs[number] > 0)
    return found


def _adam(part: Floats, gradient: Floats, moments: tuple[Floats, Floats], rate_and_step: tuple[float, int]) -> None:
    """Move weights against their gradient, in place."""
    (mean, square), (rate, step), (slow, slower) = moments, rate_and_step, _DECAYS
    mean += (1 - slow) * (gradient - mean)
    square += (1 - slower) * (gradient**2 - square)
    part -= rate * (mean / (1 - slow**step)) / (np.sqrt(square / (1 - slower**step)) + _EPSILON)
