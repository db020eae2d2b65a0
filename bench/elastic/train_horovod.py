"""train_horovod - Horovod's worker of bench/recovery, as its documents show it:
hvd.elastic.run and a TorchState, which commits every so many steps.

    train_horovod.py STAMPS STATE_BYTES GRADIENT_BYTES STEP_US COMMIT_EVERY

Started by horovodrun. See trainer.py for what a step is.
"""
import os
import sys

import trainer  # before what takes long to import

import torch
import horovod.torch as hvd

hvd.init()
run = trainer.Trainer(sys.argv[1:], os.environ["HOROVOD_HOSTNAME"])
model = torch.nn.ParameterList(
    [torch.nn.Parameter(torch.zeros(run.n_state))])
gradient = torch.zeros(run.n_gradient)


@hvd.elastic.run
def train(state):
    run.enter(hvd.rank(), hvd.size())
    while state.step < run.stop_step():
        run.compute(gradient)
        hvd.allreduce_(gradient, op=hvd.Sum)
        run.stepped(gradient, state.step)
        state.step += 1
        if state.step % run.commit_every == 0:
            state.commit()


train(hvd.elastic.TorchState(model=model, step=0))
