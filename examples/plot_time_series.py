"""
A time series: trend, season, gaps and the years ahead
======================================================

Carbon dioxide on Mauna Loa, measured every week; statsmodels ships the data. A kernel says what the series is
made of: a trend over decades, a season of exactly one year, and weather.

The kernel is one of scikit-learn's. Time is in years, so that a period of 1 is a year: lengthscales and
periods of a kernel that is given are in the units of X.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, WhiteKernel
from statsmodels.datasets import co2

from itergp import IterGPRegressor

monthly = co2.load_pandas().data["co2"].resample("MS").mean().dropna()  # some weeks are missing
years = (monthly.index.year + (monthly.index.month - 0.5) / 12).to_numpy(dtype=float)
ppm = monthly.to_numpy()
gap = np.isin(np.floor(years), [1966, 1967, 1978, 1979, 1988, 1989])
future = years > 1998
known = ~gap & ~future

# %%
# Bounds that are "fixed" are kept: the season has a period of one year, whatever the data say. Scales and
# noise are in variances of y, and are learned, as are the other lengthscales.

trend = 1.0 * RBF(50.0)
season = 0.1 * RBF(100.0) * ExpSineSquared(1.0, periodicity=1.0, periodicity_bounds="fixed")
weather = 0.001 * Matern(0.5, nu=1.5) + WhiteKernel(0.0003)
model = IterGPRegressor(kernel=trend + season + weather, mean="linear")
model.fit(years[known, None], ppm[known])
print(model.kernel_)


# %%
# Three gaps of two years, and all years after 1998, were not shown to it. Inside of gaps the data on both
# sides speak. Ahead of the data, only the kernel does: it says that the trend is smooth, and cannot know
# that growth speeds up. Intervals of a forecast are those of a series that goes on as it was.


def score(some):
    mean, std = model.predict(years[some, None], return_std=True)
    return np.sqrt(np.mean((mean - ppm[some]) ** 2)), np.mean(np.abs(mean - ppm[some]) < 1.96 * std)


scores = {"in the gaps": score(gap), "after 1998": score(future)}
for where, (rmse, coverage) in scores.items():
    print(f"{where}: error {rmse:.2f} ppm, and the 95 % intervals contain {coverage:.0%} of the months")

# %%
# The season goes on, and the trend gets less certain every year.

ahead = np.arange(1986, 2006, 1 / 24)
mean, std = model.predict(ahead[:, None], return_std=True)
figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
axis.fill_between(ahead, mean - 1.96 * std, mean + 1.96 * std, color="#1f77b4", alpha=0.3, lw=0)
axis.plot(ahead, mean, color="#1f77b4", lw=1, label="predicted, with 95 % intervals")
axis.plot(years[known], ppm[known], ".", color="grey", ms=3, label="known")
axis.plot(years[~known], ppm[~known], ".", color="#d62728", ms=3, label="not shown to the model")
axis.set(xlim=(1986, 2006), ylim=(340, 390), ylabel="CO2 in ppm")
axis.legend(frameon=False, loc="upper left")
