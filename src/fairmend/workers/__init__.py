"""Workers: run the same function over many tasks, here or on an engine that already runs somewhere.

- `engine`: what an engine is, the one in this process, and `run_tasks`, which gives back results in the order of tasks
- `open_engine`: the engine that an address or a number of processes names
- `processes`, `dask_engine`, `ray_engine`: processes of this machine, a Dask cluster, Ray
- `remote_call`: what happens on a worker: same versions, and a shared part that is unpacked once
- `kept_results`: a folder of finished results, from which a run continues after its end

Dask and Ray are called by their own futures and not through joblib: joblib's backend for Ray loses the tasks of a
worker that dies, and cannot give back results while later tasks are still to be made.
"""
