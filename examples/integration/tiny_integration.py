"""A whole integration: starts DeepSpeed on a model, trains, saves and loads, as the harness asks."""

import deepspeed

from conformance.integrations import master_weights


class TinySession:
    """One model in training. Every rank calls each method, all at once."""

    def __init__(self, engine, loss):
        self.engine, self.loss = engine, loss  # checks look at the engine: was the stage that was asked for really on?

    def train_step(self, batches):
        losses = []
        for inputs, targets in batches:  # as many as gradient_accumulation_steps: together one optimizer step
            device = self.engine.device
            loss = self.loss(self.engine(inputs.to(device)), targets.to(device))
            self.engine.backward(loss)
            self.engine.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def weights(self):
        return master_weights.gather(self.engine)

    def save(self, folder, *, tag=None, client_state=None):
        self.engine.save_checkpoint(str(folder), tag=tag, client_state=dict(client_state or {}))

    def load(self, folder, *, tag=None):
        path, client_state = self.engine.load_checkpoint(str(folder), tag=tag)
        return None if path is None else client_state

    def stop(self):
        self.engine.destroy()
        deepspeed.comm.destroy_process_group()


class Tiny:
    name = "tiny"

    def start(self, setting, training):
        deepspeed.init_distributed(dist_backend=setting.transport)
        model = training.model
        engine, *_ = deepspeed.initialize(
            model=model,
            config=dict(training.config),
            optimizer=training.optimizer,
            model_parameters=training.parameters or [each for each in model.parameters() if each.requires_grad],
            lr_scheduler=training.scheduler,
        )
        return TinySession(engine, training.loss)


TINY = Tiny()
