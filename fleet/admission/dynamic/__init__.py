"""Dynamic admission: the webhooks and policies that administrators register."""

from fleet.admission.dynamic.chain import Dynamic
from fleet.admission.dynamic.matching import GROUP
from fleet.admission.dynamic.policy_registration import BINDING, MUTATING, MUTATING_BINDING, POLICY
from fleet.admission.dynamic.registration import WEBHOOKS

__all__ = ["BINDING", "GROUP", "MUTATING", "MUTATING_BINDING", "POLICY", "WEBHOOKS", "Dynamic"]
