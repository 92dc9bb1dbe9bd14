"""
A messy table in a pipeline
===========================

A table as it comes: numbers, categories and holes. The penguins of the Palmer archipelago have three species,
three islands and two sexes, and some were not weighed or measured. scikit-learn's transformers prepare the
columns, and the Gaussian process is the last step of the pipeline.
"""

import matplotlib.pyplot as plt
import numpy as np
from palmerpenguins import load_penguins
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from itergp import IterGPRegressor

table = load_penguins()
print(table.isna().sum()[lambda missing: missing > 0].to_string())

# %%
# A row without a target teaches nothing: it is left out. Missing inputs are another matter: their column gets
# its median, and a column of zeros and ones that says where that was done.

weighed = table.dropna(subset="body_mass_g")
X, y = weighed.drop(columns="body_mass_g"), weighed["body_mass_g"].to_numpy()
numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "year"]
categories = ["species", "island", "sex"]
columns = make_column_transformer(
    (SimpleImputer(strategy="median", add_indicator=True), numbers),
    # a Gaussian process reads all columns of a row: dense, hence sparse_output=False
    (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), categories),
)
pipeline = make_pipeline(columns, IterGPRegressor())

# %%
# Held-out penguins: the error in grams, beside that of predicting the mean weight, and how often the
# intervals hold.

known, new, y_known, y_new = train_test_split(X, y, test_size=0.3, random_state=0)
pipeline.fit(known, y_known)
mean, std = pipeline.predict(new, return_std=True)
rmse, baseline = np.sqrt(np.mean((mean - y_new) ** 2)), np.sqrt(np.mean((y_known.mean() - y_new) ** 2))
coverage = np.mean(np.abs(mean - y_new) < 1.96 * std)
print(f"error {rmse:.0f} g, where predicting the mean errs by {baseline:.0f} g")
print(f"the 95 % intervals contain {coverage:.0%} of the new penguins")

# %%
# Observed against predicted, with the intervals. Points on the diagonal would be predicted without error.

figure, axis = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axis.errorbar(mean, y_new, xerr=1.96 * std, fmt=".", color="#1f77b4", ecolor="#c6dbef", ms=4, lw=1)
axis.plot([2500, 6500], [2500, 6500], color="grey", lw=0.8)
axis.set(xlabel="predicted body mass (g)", ylabel="observed body mass (g)")
