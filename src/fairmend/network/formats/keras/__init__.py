"""Keras models: HDF5 files (`h5`) and .keras archives (`archive`)."""
