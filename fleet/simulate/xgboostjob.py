"""XGBoostJob: the Master decides."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done
from fleet.values.ports import Body


class XGBoostJobs(KubeflowOperator):
    kind_name, resource, specs_field = "XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"
    default_restart = "Never"
    leaders = ("Master",)

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        return active(types.get("Master", {})) > 0

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        return "Master" in specs and all_done(types["Master"], specs["Master"])
