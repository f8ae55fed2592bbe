"""Dynamic admission: the webhooks and policies that administrators register."""

from api.admission.dynamic.chain import DynamicAdmission
from api.admission.dynamic.matching import GROUP
from api.admission.dynamic.policy_registration import BINDING, MUTATING, MUTATING_BINDING, POLICY
from api.admission.dynamic.registration import WEBHOOKS

__all__ = ["BINDING", "GROUP", "MUTATING", "MUTATING_BINDING", "POLICY", "WEBHOOKS", "DynamicAdmission"]
