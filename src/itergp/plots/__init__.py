"""Plots of Gaussian processes, in matplotlib and in the paper's colours, for anything with a mean and a
variance.

Each function draws on the given `axis` and returns it. Without one it makes a figure: pyplot's if pyplot is
loaded, so that `plt.show()` and notebooks show it, otherwise one without global state
(`axis.figure.savefig(path)`). Variances are those of the latent function; bands are two standard deviations
wide on either side.
"""

from itergp.plots.pictures import plot_calibration, plot_decomposition, plot_posterior, plot_trace

__all__ = ["plot_calibration", "plot_decomposition", "plot_posterior", "plot_trace"]
