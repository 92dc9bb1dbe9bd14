"""Whether errors are as the model says, everywhere: do their squares depend on the inputs, are their tails
those of a normal distribution?"""

import numpy as np
from scipy.special import ndtr, pdtrc

from itergp.fitted.formats import percent
from itergp.report.measure.quality import standardised
from itergp.report.measure.subject import Target
from itergp.report.page.text import Json

FEWEST = 50  # points
SURE = 0.01  # probability of a false alarm, for each of the two questions
FAR, BEYOND = 3.0, float(2.0 * ndtr(-3.0))  # standard deviations, and the share of a normal beyond them
MEAN = "the predicted mean"


def noise(target: Target) -> Json | None:
    """Of standardised errors of the model as it predicts; None where points are too few to tell."""
    z = standardised(target.y, target.means[-1], target.variances[-1])
    if z.size < FEWEST or not z.any():
        return None
    fit, asked = target.subject.fit, target.subject.fit.asked["noise"]
    varies, tails = _varies(target, z), _tails(_of_observations(target, z))
    sentences = [
        _varies_words(varies, fit.noise_function is not None),
        _tails_words(tails, isinstance(asked, str) and asked == "robust"),
    ]
    return {"varies": varies, "tails": tails, "sentences": sentences}


def _of_observations(target: Target, z: np.ndarray) -> np.ndarray:
    """Errors of single observations: the mean of many at one place is close to normal, whatever they are.
    Where held-out rows are such means, the scores of the calibration."""
    subject = target.subject
    merged = subject.seen.points.source != "test data" and bool((subject.fit.counts > 1).any())
    if not merged or subject.calibration is None:
        return z
    return subject.calibration.scores.reshape(subject.calibration.scores.shape[0], -1)[:, target.number]


def _varies(target: Target, z: np.ndarray) -> Json:
    """The largest rank correlation of squared errors with a feature or the prediction, or with its distance
    from the median; with its p value times the number of comparisons (Bonferroni)."""
    subject = target.subject
    values = [*subject.seen.points.X.T, target.means[-1]]
    squares, found = _ranks(z**2), []
    for name, x in zip([*subject.names, MEAN], values, strict=True):
        for ends, one in ((False, x), (True, np.abs(x - np.median(x)))):
            if np.ptp(one) > 0:
                found.append((float(np.corrcoef(squares, _ranks(one))[0, 1]), name, ends))
    if not found:
        return {"with": None, "ends": False, "correlation": 0.0, "p": 1.0, "comparisons": 0}
    correlation, name, ends = max(found, key=lambda one: abs(one[0]))
    p = 2.0 * float(ndtr(-abs(correlation) * (z.size - 1) ** 0.5))
    return {
        "with": name,
        "ends": ends,
        "correlation": correlation,
        "p": min(1.0, len(found) * p),
        "comparisons": len(found),
    }


def _ranks(x: np.ndarray) -> np.ndarray:
    """Those of equal values are their mean."""
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[which]


def _tails(z: np.ndarray) -> Json:
    """In units of their own standard deviation: intervals of the wrong width are another question."""
    z = z / np.sqrt(np.mean(z**2))
    far = int((np.abs(z) > FAR).sum())
    return {
        "beyond": far / z.size,
        "expected": BEYOND,
        "kurtosis": float(np.mean(z**4)) - 3.0,
        "p": 1.0 if far == 0 else float(pdtrc(far - 1, BEYOND * z.size)),
    }


def _varies_words(found: Json, learned: bool) -> str:
    if found["with"] is None:
        return "No feature varies at these points."
    where = f"the distance of {found['with']} from its median" if found["ends"] else found["with"]
    number = (
        f"rank correlation {found['correlation']:.2f} with {where}, p = {found['p']:.1g} after correction "
        f"for {found['comparisons']} comparisons"
    )
    if found["p"] >= SURE:
        return f"Squared errors do not depend on the inputs, as far as these points tell ({number})."
    what = (
        'The noise that was learned, `noise="heteroscedastic"`, does not explain it all.'
        if learned
        else 'Use `noise="heteroscedastic"` (`itergp fit --noise heteroscedastic`): it learns how.'
    )
    return f"Squared errors depend on the inputs: {number}. {what}"


def _tails_words(found: Json, robust: bool) -> str:
    number = (
        f"{percent(found['beyond'])} of the errors lie beyond three standard deviations, where a normal "
        f"distribution has {percent(found['expected'])} (excess kurtosis {found['kurtosis']:.2g}"
    )
    if found["p"] >= SURE:
        return f"Tails are not heavier than those of a normal distribution: {number})."
    what = (
        '; or `noise="robust"` (`itergp fit --noise robust`), if the largest errors are mistakes in the data.'
    )
    return (
        f"Tails are heavier than those of a normal distribution: {number}, p = {found['p']:.1g}). Use "
        '`interval(X, method="conformal")` (`itergp predict --interval conformal`), which holds its '
        f"level for any shape{'.' if robust else what}"
    )
