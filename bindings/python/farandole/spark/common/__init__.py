"""Parts that the estimators of all frameworks share: stores, prepared data, parameters."""
