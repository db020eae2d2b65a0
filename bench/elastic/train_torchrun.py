"""train_torchrun - torchrun's worker of bench/recovery, as they are written for
it: rank 0 writes a checkpoint every so many steps, into memory, and everybody
loads the last one when it starts.

    train_torchrun.py STAMPS STATE_BYTES GRADIENT_BYTES STEP_US COMMIT_EVERY
                      CHECKPOINT

Started by torchrun. See trainer.py for what a step is.
"""
import os
import sys

import trainer  # before what takes long to import

import torch
import torch.distributed as dist

run = trainer.Trainer(sys.argv[1:6], os.environ["RECOVERY_PLACE"])
checkpoint = sys.argv[6]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model, step = torch.zeros(run.n_state), 0
gradient = torch.zeros(run.n_gradient)
if os.path.exists(checkpoint):
    loaded = torch.load(checkpoint)
    model, step = loaded["model"], loaded["step"]
run.enter(rank, size)
while step < run.stop_step():
    run.compute(gradient)
    dist.all_reduce(gradient)
    run.stepped(gradient, step)
    step += 1
    if rank == 0 and step % run.commit_every == 0:
        torch.save({"model": model, "step": step}, checkpoint + ".new")
        os.rename(checkpoint + ".new", checkpoint)
