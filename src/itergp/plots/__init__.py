"""Pictures of Gaussian processes, in matplotlib and in the paper's colours: functions of anything with a
mean and a variance.

Each function draws on the `axis` it is given and returns it. Without one it makes a figure: pyplot's where
pyplot is loaded, so that `plt.show()` and notebooks show it, and elsewhere one that leaves nothing behind
(`axis.figure.savefig(path)`). Variances are those of the latent function, bands are two standard
deviations wide on either side.
"""

from itergp.plots.pictures import plot_calibration, plot_decomposition, plot_posterior, plot_trace

__all__ = ["plot_calibration", "plot_decomposition", "plot_posterior", "plot_trace"]
