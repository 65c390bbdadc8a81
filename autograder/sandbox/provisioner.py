"""Jupyter's way to a kernel in the sandbox: a kernel provisioner, registered as `attention-sandbox`."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerBase
from traitlets import Bool

from autograder.sandbox.host import _PORTS, KernelProcess, Zygote

NAME = "attention-sandbox"


class SandboxProvisioner(KernelProvisionerBase):
    """Forks a kernel from a zygote: that of its kernel manager, or one of its own when there is none."""

    sandboxed = Bool(True, config=True, help="False runs kernels as plain processes; for --no-sandbox alone.")

    zygote: Zygote | None = None
    kernel: KernelProcess | None = None
    _owned = False

    @property
    def has_process(self) -> bool:
        return self.kernel is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        self.zygote = getattr(self.parent, "zygote", None)
        if self.zygote is None:
            self.zygote, self._owned = Zygote(sandboxed=self.sandboxed), True
        # The environment and the folder of this process are none of the kernel's business.
        return await super().pre_launch(cmd=[], env={}, **{k: v for k, v in kwargs.items() if k not in ("env", "cwd")})

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        assert self.zygote is not None
        self.kernel = self.zygote.spawn()
        ports = {name: number for number, name in enumerate(_PORTS, 1)}
        self.connection_info = {  # type: ignore[typeddict-item]
            "transport": "ipc",
            "ip": self.kernel.ip,
            "key": self.kernel.key.encode(),
            "signature_scheme": "hmac-sha256",
            **ports,  # type: ignore[typeddict-item]
        }
        return self.connection_info

    async def poll(self) -> int | None:
        return 0 if self.kernel is None or self.zygote is None else self.zygote.poll(self.kernel)

    async def wait(self) -> int | None:
        while (status := await self.poll()) is None:
            await asyncio.sleep(0.01)
        return status

    async def send_signal(self, signum: int) -> None:
        # Every signal means the end: an interrupt can be caught by learner code, an end can't.
        await self.kill()

    async def kill(self, restart: bool = False) -> None:
        if self.kernel is not None and self.zygote is not None:
            self.zygote.kill(self.kernel)

    async def terminate(self, restart: bool = False) -> None:
        await self.kill()

    async def cleanup(self, restart: bool = False) -> None:
        await self.kill()
        self.kernel = None
        if self._owned and self.zygote is not None and not restart:
            self.zygote.close()


class _OneSpec(KernelSpecManager):
    """Knows one kernel, that of the sandbox, so that nothing has to be installed into Jupyter's folders."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return kernel_spec()


def kernel_spec() -> KernelSpec:
    provisioner = {"provisioner_name": NAME, "config": {}}
    return KernelSpec(
        argv=["sandboxed-kernel"],
        display_name="Python (sandbox)",
        language="python",
        metadata={"kernel_provisioner": provisioner},
    )


class SandboxKernelManager(AsyncKernelManager):
    """A kernel manager whose kernels come from a given zygote."""

    def __init__(self, zygote: Zygote, **kwargs: Any):
        super().__init__(kernel_name=NAME, kernel_spec_manager=_OneSpec(), **kwargs)
        self.zygote = zygote
        self.shutdown_wait_time = 0.5
