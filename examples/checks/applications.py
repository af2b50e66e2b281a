"""What the applications must compute: hydrodynamics, finite elements, particle transport, docking."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Results = dict[str, Any]

_DOUBLE_PRECISION = (
    "hydro1d_state", "hydro1d_viscosity", "hydro1d_accelerate", "hydro1d_move", "hydro1d_timestep", "lulesh_element",
)  # fmt: skip
TOLERANCE = dict.fromkeys(_DOUBLE_PRECISION, 1e-12)


def hydro1d_state(before: Arguments) -> Results:
    """Ideal gas: p = (gamma - 1) rho e, and the square of the speed of sound is gamma (gamma - 1) e."""
    excess = before["gamma"] - 1
    sound = np.sqrt(before["gamma"] * excess * before["energy"])
    return {"pressure": excess * before["density"] * before["energy"], "sound": sound}


def hydro1d_viscosity(before: Arguments) -> Results:
    """Linear and quadratic viscosity of von Neumann, Richtmyer and Landshoff, in compression only."""
    squeeze = np.maximum(-np.diff(before["velocity"]), 0)
    terms = before["quadratic"] * squeeze**2 + before["linear"] * before["sound"] * squeeze
    return {"viscosity": before["density"] * terms}


def hydro1d_accelerate(before: Arguments) -> Results:
    """Force is the difference of pressure, a node's mass half of its two zones'; walls at the ends."""
    mass = np.convolve(before["mass"], [0.5, 0.5], "valid")
    velocity = np.zeros_like(before["velocity"])
    force = -np.diff(before["pressure"] + before["viscosity"])
    velocity[1:-1] = before["velocity"][1:-1] + before["dt"] * force / mass
    return {"velocity": velocity}


def hydro1d_move(before: Arguments) -> Results:
    """Nodes move, mass stays, and the work of the pressure is taken from the energy."""
    place = before["place"] + before["dt"] * before["velocity"]
    expansion = before["dt"] * np.diff(before["velocity"])
    energy = before["energy"] - (before["pressure"] + before["viscosity"]) * expansion / before["mass"]
    return {"next": place, "density": before["mass"] / np.diff(place), "energy": energy.clip(0)}


def hydro1d_timestep(before: Arguments) -> Results:
    """Block b takes every grid[0]-th part of the zones, beginning with part b."""
    signal = before["sound"] + np.abs(np.diff(before["velocity"]))
    steps = before["courant"] * np.diff(before["place"]) / signal
    block = np.arange(len(steps)) // before["block"][0] % before["grid"][0]
    smallest = np.full(before["grid"][0], np.inf)
    np.minimum.at(smallest, block, steps)
    return {"smallest": smallest}


#: Where the corners of an element lie: x, y and z, each -1 or 1.
_SIGNS = np.array([[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
#: The six faces, seen from outside counterclockwise.
_FACES = np.array([[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]])


def lulesh_element(before: Arguments) -> Results:
    """Trilinear elements with one integration point, pressure on bilinear faces, Flanagan-Belytschko damping."""
    steps = (_SIGNS + 1) // 2
    nodes = np.arange(before["elements"])[:, None] + steps @ [1, before["row"], before["layer"]]
    at = np.stack([before[name][nodes] for name in "xyz"], axis=2) + before["spacing"] * steps
    velocity = np.stack([before[name][nodes] for name in ("vx", "vy", "vz")], axis=2)
    jacobian = np.einsum("ci,ecd->eid", _SIGNS / 8, at)
    volume = 8 * np.linalg.det(jacobian)
    gradient = np.einsum("ci,edi->ecd", _SIGNS / 8, np.linalg.inv(jacobian))

    force = np.zeros_like(at)
    for face in _FACES:  # the area vector of a bilinear face is half the product of its diagonals
        area = np.cross(at[:, face[2]] - at[:, face[0]], at[:, face[3]] - at[:, face[1]]) / 2
        force[:, face] += (before["pressure"][:, None] * area / 4)[:, None, :]

    x, y, z = _SIGNS.T
    patterns = np.stack([x * y, y * z, z * x, x * y * z])
    modes = patterns - patterns @ at @ gradient.transpose(0, 2, 1)  # without what a linear motion shares with them
    strength = 0.01 * before["hourglass"] * before["sound"] * before["mass"] / np.cbrt(volume)
    force -= strength[:, None, None] * modes.transpose(0, 2, 1) @ (modes @ velocity)
    return {"volumes": volume, **{name: force[:, :, axis].T for axis, name in enumerate(("fx", "fy", "fz"))}}


class _Histories:
    """All particles at once; those that have ended are dropped."""

    def __init__(self, before: Arguments) -> None:
        self.before = before
        mixed = (np.arange(before["particles"], dtype=np.uint32) + np.uint32(1)) * np.uint32(2654435761)
        mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(2246822519)
        self.state = (mixed ^ mixed >> np.uint32(13)) | np.uint32(1)
        everyone = np.ones(len(self.state), np.bool_)
        self.energy = self.uniform(everyone) * (before["points"] - 1)
        self.direction = np.ones(len(self.state))
        self.within = np.zeros(len(self.state))
        self.cell = np.zeros(len(self.state), np.int64)

    def uniform(self, drawing: Any) -> Any:
        """Draw a number for each of some particles, by Marsaglia's xorshift."""
        state = self.state[drawing]
        for left, distance in ((True, 13), (False, 17), (True, 5)):
            state ^= state << np.uint32(distance) if left else state >> np.uint32(distance)
        self.state[drawing] = state
        return ((state >> np.uint32(9)) + 0.5) / 2**23

    def keep(self, going: Any) -> None:
        """Drop the particles that have ended."""
        for name in ("state", "energy", "direction", "within", "cell"):
            setattr(self, name, getattr(self, name)[going])

    def cross_sections(self) -> list[Any]:
        """Return absorption and scattering, linear between the points of the energy grid."""
        energies, material = self.before["energies"], self.before["material"][self.cell]
        result = []
        for name in ("absorption", "scattering"):
            found = np.empty(len(material))
            for one in np.unique(material):
                found[material == one] = np.interp(self.energy[material == one], energies, self.before[name][one])
            result.append(found)
        return result


def monte_carlo_transport(before: Arguments) -> Results:
    """All histories side by side, one flight at a time."""
    cells = before["cells"]
    flux, absorbed, leaked = np.zeros(cells), np.zeros(cells), np.zeros(2)
    one = _Histories(before)
    while len(one.cell):
        absorb, scatter = one.cross_sections()
        to_collision = -np.log(one.uniform(slice(None))) / (absorb + scatter)
        to_edge = ((one.direction > 0) - one.within) / one.direction
        crosses = to_edge <= to_collision
        np.add.at(flux, one.cell, np.minimum(to_edge, to_collision))

        hit = np.flatnonzero(~crosses)
        one.within[hit] += one.direction[hit] * to_collision[hit]
        ends = one.uniform(hit) * (absorb + scatter)[hit] < absorb[hit]
        np.add.at(absorbed, one.cell[hit[ends]], 1)
        scatters = hit[~ends]
        one.within[crosses] = one.direction[crosses] < 0
        one.cell[crosses] += np.sign(one.direction[crosses]).astype(np.int64)
        one.direction[scatters] = 2 * one.uniform(scatters) - 1
        one.energy[scatters] *= 0.25 + 0.75 * one.uniform(scatters)

        leaked += [(one.cell < 0).sum(), (one.cell >= cells).sum()]
        going = (one.cell >= 0) & (one.cell < cells)
        going[hit[ends]] = False
        one.keep(going)
    return {"flux": flux, "absorbed": absorbed, "leaked": leaked}


def _rotation(first: int, second: int, angles: Any) -> Any:
    """Return rotations in the plane of two axes."""
    result = np.zeros((len(angles), 3, 3)) + np.eye(3)
    result[:, first, first] = result[:, second, second] = np.cos(angles)
    result[:, second, first] = np.sin(angles)
    result[:, first, second] = -np.sin(angles)
    return result


def _distances(before: Arguments) -> Any:
    """Return the distance of each pair of atoms in each pose."""
    poses, size = before["poses"].astype(np.float64), before["protein_size"]
    angles = 2 * np.pi * poses[:3]
    turn = _rotation(0, 1, angles[2]) @ _rotation(2, 0, angles[1]) @ _rotation(1, 2, angles[0])
    ligand = before["ligand_size"] * (before["ligand"][:, :3].astype(np.float64) - 0.5)
    moved = np.einsum("pij,lj->pli", turn, ligand) + size * poses[3:].T[:, None, :]
    return np.linalg.norm(moved[:, :, None, :] - size * before["protein"][:, :3].astype(np.float64), axis=3)


def docking(before: Arguments) -> Results:
    """All pairs at once; energies that fade out linearly with the gap between two atoms."""
    distance = _distances(before)
    radius, water, charge = np.array([1, -0.5, -0.5])[:, None] + before["kinds"].T[:3]
    one, other = ((before[name][:, 3] * before["kind_count"]).astype(int) for name in ("ligand", "protein"))
    touch = np.add.outer(radius[one], radius[other])
    gap = distance - touch
    steric = 76 * (1 - distance / touch).clip(0)
    electric = 45 * np.multiply.outer(charge[one], charge[other]) * (1 - gap / 4).clip(0, 1)
    likes, unlike = water[one][:, None], water[other]
    wet = (likes * unlike < 0) * np.abs(likes - unlike) * (1 - gap / 2.5).clip(0, 1)
    return {"energies": (steric + electric + wet).sum(axis=(1, 2)) / 2}
