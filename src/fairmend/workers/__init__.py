"""Workers: run the same function over many tasks, here or on an engine that already runs somewhere.

- `engine`: what an engine is, the one in this process, the one that an address or a number of processes names, and
  `run_tasks`, which gives back results in the order of tasks
- `local`, `dask_engine`, `ray_engine`: threads and processes of this machine, a Dask cluster, Ray
- `kept_results`: a folder of finished results, from which a run continues after its end
- `plain_data`: the form in which results come back and are kept

Dask and Ray are called by their own futures and not through joblib: joblib's backend for Ray loses the tasks of a
worker that dies, and cannot give back results while later tasks are still to be made. Nor are the processes of this
machine joblib's: as a generator it makes and runs all tasks, however few results were taken, so that memory grows.
"""
