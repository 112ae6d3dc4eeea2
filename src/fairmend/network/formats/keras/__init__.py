"""Keras models: .h5 files (`h5`) and .keras archives (`archive`), read and written without Keras."""
