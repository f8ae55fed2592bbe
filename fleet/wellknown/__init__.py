"""Names that several parts must spell alike: labels, annotations, namespaces, conditions, event reasons.

docs/reference/objects.md says what each of them means; code takes them from here.
"""

# -- namespaces on the hub
QUEUE_NAMESPACE = "kube-queue"  # holds the Queue objects
SYSTEM_NAMESPACE = "fleet-system"  # holds members' credentials and leases
TREE_NAMESPACE = "kube-system"  # the only place for an ElasticQuotaTree
HUB_CONFIG = "hub"  # ConfigMap in fleet-system: the id of the hub that the database is of, and choices for all of it
REQUIRE_QUEUE = "requireQueue"  # in it ("true"), and of a node of the quota tree: no policy passes a queue
MAX_WAITING_BY_USER = "maxWaitingJobsByUser"  # in it: how many jobs of one user may wait, "0" for any number
TERMS = "terms"  # ConfigMap in fleet-system: the terms of the leaders (controllers/runtime/terms.py)
AGENT = "agent"  # with "-" and the name of a member: Lease and Secret of its agent in fleet-system
UNKNOWN_COPIES = "unknown-copies-"  # with the name of a member: ConfigMap in fleet-system, for `fleet doctor`
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", QUEUE_NAMESPACE, SYSTEM_NAMESPACE)

# -- API groups
KUBEFLOW = "kubeflow.org"
POLICY = "policy.one.alibabacloud.com"
WORK = "work.karmada.io"
CLUSTER = "cluster.karmada.io"
QUEUE = "scheduling.x-k8s.io"
QUOTA = "scheduling.sigs.k8s.io"
CONFIG = "config.fleet.io"
HYPERNODES = "topology.volcano.sh"  # of Volcano: which nodes are close to each other

# -- marks of every object that Fleet puts into a member, the pods of a job too
LABEL_HUB = "fleet.io/hub"  # id of the hub that owns the object
LABEL_BINDING = "fleet.io/binding"  # uid of the ResourceBinding that wants it
LABEL_COMPONENT = "fleet.io/component"  # on pods: master, worker, …
ATTEMPT = "fleet.io/attempt"  # label on jobs, pods; annotation on bindings: "1", "2", …
PLACEHOLDER_IMAGE = "registry.k8s.io/pause:3.10"
GATE = "fleet.io/room"  # the scheduling gate of pods whose room is held until they are there
TAKES = "fleet.io/TakesPlaceOf"  # condition of such a pod; its message names the placeholder
LABEL_PLACEHOLDER = "fleet.io/placeholder"  # on pods in members: "true" keeps room for a pod of the job
LABEL_JOB_UID = "fleet.io/job-uid"  # on a binding: uid of the object it propagates
LABEL_OWNERLESS = "fleet.io/ownerless"  # on a binding: "true" while its copy is in a member and its object is gone
ANNOTATION_USERS = "fleet.io/users"  # on a dependency in a member: JSON list of uids of the bindings that need it
ANNOTATION_FORCE_REMOVAL = "fleet.io/force-removal"  # on a Cluster: "true" gives up what cannot be reached
LABEL_PRICE = "fleet.io/price"  # on a Cluster: the price of a GPU hour there, a whole number in any unit
ANNOTATION_POTENTIAL = "fleet.io/potential-nodes"  # on a Cluster: JSON list of node groups that an autoscaler fills
ANNOTATION_HEARTBEAT = "fleet.io/heartbeat"  # on the Lease of the controllers: JSON, the leader's report of itself
ANNOTATION_TUNNEL = "fleet.io/tunnel-address"  # on the Lease of an agent: HOST:PORT of the API that holds its tunnel
ANNOTATION_JOB = "fleet.io/job"  # namespace/name of the job on the hub
ANNOTATION_HASH = "fleet.io/hash"  # digest of what was applied: an equal one need not be applied again
ANNOTATION_SIZES = "fleet.io/sizes"  # on jobs in members: JSON, the pods by component that the hub asked for
ANNOTATION_SENT = "fleet.io/sent-on"  # on objects in members, not on pods: TERM/REVISION of the hub when it was sent


# -- on hub objects
FINALIZER_BINDING = "fleet.io/members"  # on a binding: nothing of it is left in any member
FINALIZER_CLUSTER = "fleet.io/cluster"  # on a Cluster: its copies have been withdrawn or given up
ANNOTATION_POLICY = "fleet.io/policy"  # on a binding: "PropagationPolicy ns/name" or "ClusterPropagationPolicy name"
ANNOTATION_POLICY_GENERATION = "fleet.io/policy-generation"  # on a binding: of the policy that it was made from
ANNOTATION_ENQUEUED = "fleet.io/enqueued-at"  # on a binding: RFC 3339, kept over re-queueing
ANNOTATION_RETRIES = "fleet.io/failures"  # on a binding: JSON list of {member, at, reason}, newest last
ANNOTATION_STATE = "fleet.io/preserved-state"  # on a binding: JSON, {label: value} of its last attempt
ANNOTATION_QUEUEING = "fleet.io/queueing"  # on a binding: "true" while its policy wants it queued
ANNOTATION_SUSPENDED = "fleet.io/suspended"  # on a binding: "true" while its job says suspend: true
ANNOTATION_WALLTIME = "fleet.io/walltime-seconds"  # on a binding: after so many seconds its member ends the job
ANNOTATION_CREATOR = "fleet.io/creator"  # on a job, copied to its binding: the authenticated user who created it
# On a job or its pod templates: where pods stand, LEVEL[@COMPONENT+...][,...] (fleet/kinds/topology.py). On a binding
# the first says the rule of a whole gang that has no other; all else is in ANNOTATION_RULES.
ANNOTATION_TOPOLOGY = "fleet.io/required-topology"
ANNOTATION_PREFERRED_TOPOLOGY = "fleet.io/preferred-topology"
ANNOTATION_EVEN_TOPOLOGY = "fleet.io/even-topology"
ANNOTATION_SLICES = "fleet.io/slices"  # LEVEL=PODS
ANNOTATION_MOST_PER_DOMAIN = "fleet.io/most-per-domain"  # LEVEL=PODS
ANNOTATION_RULES = "fleet.io/placement-rules"  # on a binding: JSON, the rules of its gang
# The same wishes in the words of other projects, on jobs and pod templates (fleet/kinds/peertopology.py).
KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
KUEUE_SLICES = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
KUEUE_LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KUEUE_GROUP = "kueue.x-k8s.io/podset-group-name"
KAI_TOPOLOGY = "kai.scheduler/topology-required-placement"
KAI_PREFERRED_TOPOLOGY = "kai.scheduler/topology-preferred-placement"
VOLCANO_AFFINITY = "volcano.sh/task-topology-affinity"
VOLCANO_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
LABEL_GANG = "fleet.io/gang"  # on pods in members: the PodGroup of Kubernetes that they belong to
ANNOTATION_GANG = "fleet.io/gang-scheduler"  # on a Cluster: the gang scheduler there; on a binding: of this attempt
ANNOTATION_ROOM = "fleet.io/room"  # on a binding: how its room in the member was held before this attempt
ANNOTATION_RESERVATION = "fleet.io/enable-reservation"  # on a Cluster: "true", as spec.enableReservation
# On a job of a kind without pod templates: its pods at once and their requests, "replicas=4,cpu=8,nvidia.com/gpu=2".
ANNOTATION_SIZE = "fleet.io/size"
ANNOTATION_MIN_REPLICAS = "fleet.io/min-replicas"  # on a job whose kind has no field for its fewest replicas
ANNOTATION_DOMAIN = "fleet.io/topology-domain"  # on a binding: the value that was chosen for it in its member
LABEL_TEMPLATE = "fleet.io/template"  # on a ConfigMap: "true", it holds a template of `fleet run`
LABEL_CODE = "fleet.io/code-of"  # on a ConfigMap: the job whose code it holds, and that it travels with in any case
ANNOTATION_HOLD = "fleet.io/hold"  # on a job, copied to its binding: "true" keeps a waiting job from starting
ANNOTATION_NOTIFY = "fleet.io/notify"  # on a job: the NotificationReceivers that are told of it
# On a job, copied to its binding: NAME[:ok|:any][,NAME...], the jobs of its namespace after which it starts.
ANNOTATION_AFTER = "fleet.io/after"
ANNOTATION_AFTER_SEEN = "fleet.io/after-seen"  # on a binding: JSON, what the hub has seen of those jobs
LABEL_SWEEP = "fleet.io/sweep"  # on jobs: the sweep or array that they belong to
ANNOTATION_SWEEP_VALUES = "fleet.io/sweep-values"  # on a job of a sweep: JSON, its parameters
ANNOTATION_SWEEP_PLACE = "fleet.io/sweep-place"  # on a job of a sweep: 3/10, the third of ten
ANNOTATION_AT_MOST = "fleet.io/at-most"  # on a job of a sweep, copied to its binding: so many of them run at once
ANNOTATION_TAKES_OVER = "fleet.io/takes-over"  # on a job: "true" takes over the copy of an earlier one of its name
ANNOTATION_MOVE = "fleet.io/move-to"  # on a job, copied to its binding: the member of its next placement
# On a job or a policy, copied to the binding: pods that are still Terminating so many seconds after their grace are
# deleted by force, when their job leaves the member.
ANNOTATION_FORCE_DELETE = "fleet.io/force-delete-pods-after-seconds"
# On a job or a policy, copied to the binding: seconds between the notice of an eviction and the end of the copy.
ANNOTATION_NOTICE = "fleet.io/eviction-notice-seconds"
ANNOTATION_EVICT_AT = "fleet.io/evict-at"  # on a copy in a member and its pods: RFC 3339, they are deleted then
ANNOTATION_PINS = "fleet.io/pinned-nodes"  # on a copy in a member: JSON, the node affinities that the hub added
ANNOTATION_AVOIDED = "fleet.io/avoided-nodes"  # on a copy in a member: nodes that its pods keep off, with commas
ANNOTATION_EVICT_WHY = "fleet.io/evict-reason"  # beside it: why
# On a job or a policy, copied to the binding: after so many attempts that came to nothing it is held; "0": never.
ANNOTATION_BACKOFF_LIMIT = "fleet.io/backoff-limit"
# On a job (copied to its binding), on its copy in a member or on one of its pods: RFC 3339, work up to then is saved.
ANNOTATION_CHECKPOINT = "fleet.io/checkpoint-at"
ANNOTATION_PRIORITY = "fleet.io/priority-from-job"  # on a unit: its job's value; another spec.priority is a person's
ANNOTATION_PRIORITY_CLASS = "fleet.io/priority-class-from-job"  # on a unit, likewise of spec.priorityClassName
ANNOTATION_SEEDED = "fleet.io/seeded"  # on a CRD: digest of the spec that Fleet wrote
ANNOTATION_BYPASSES = "fleet.io/bypasses-queue"  # on a policy: JSON {by, leaves}: whose queues its writer may pass
ANNOTATION_JOB_GENERATION = "fleet.io/job-generation"  # on a binding: generation of the object it was made from
ANNOTATION_QUOTA_FULLNAME = "kube-queue/quota-fullname"  # on a Queue: root/child-2
ANNOTATION_QUOTA_PARENT = "kube-queue/parent-quota"  # on a Queue: full name of the parent
ANNOTATION_CHECKS_TIMEOUT = "fleet.io/admission-checks-timeout-seconds"  # on a Queue: how long a unit stays Reserved
THRESHOLD_ANNOTATIONS = ("kube-queue/priority-threshold", "koord-queue/priority-threshold")  # on an Intelligent Queue
MAX_DEPTH_ANNOTATIONS = ("kube-queue/max-depth", "koord-queue/max-depth")  # on a Queue
PODS_RUNNING_ANNOTATIONS = ("kube-queue/wait-for-pods-running", "koord-queue/wait-for-pods-running")  # on a Queue
HIDE_ITEMS_ANNOTATIONS = ("kube-queue/disable-show-queue-items", "koord-queue/disable-show-queue-items")  # on a Queue
QUOTA_NAME_LABELS = ("quota.scheduling.alibabacloud.com/name", "quota.scheduling.koordinator.sh/name")
PREEMPTIBLE_LABELS = ("quota.scheduling.alibabacloud.com/preemptible", "quota.scheduling.koordinator.sh/preemptible")

MANAGED_BY = "fleet.io/hub"  # as the controller that a job names: no member gets the field

# -- suffixes
UNIT_SUFFIX = "-rb-qu"  # QueueUnit name = binding name + this

# -- conditions
QUEUING = "Queuing"  # on bindings and jobs: True/Enqueued while it waits, False/Dequeued after
SCHEDULED = "Scheduled"  # on bindings
FULLY_APPLIED = "FullyApplied"  # on bindings
GANG_WHOLE = "PodsReady"  # on bindings: every pod of this attempt has had a node at the same time
KINDS_AVOIDED = "KindsAvoided"  # on Clusters: True while no job of some kinds goes there
NODES_AVOIDED = "NodesAvoided"  # on Clusters: True while nodes of it are counted out, since jobs failed there
PENDING = "Pending"  # on jobs outside quota: True while nothing takes them
RESIZED = "Resized"  # on bindings, and on jobs while False: a job that has its room asks for more; also an Event

# -- event reasons (component "default-scheduler" for the first two, as the walk-through prints it)
SCHEDULE_SUCCEED = "ScheduleBindingSucceed"
SCHEDULE_FAILED = "ScheduleBindingFailed"
RESERVE_SUCCEED = "QuotaReserved"
SYNC_SUCCEED = "SyncSucceed"
SYNC_FAILED = "SyncFailed"
PUT_BACK = "PutBack"
EVICT_SUCCEED = "EvictWorkloadFromClusterSucceed"
EVICT_FAILED = "EvictWorkloadFromClusterFailed"
PRIORITY_CLASS_DIFFERS = "PriorityClassDiffers"  # a member has its own of that name, of another value
DEPENDENCY_DIFFERS = "DependencyDiffers"  # the same of a ConfigMap or Secret, of other content
STATE_NOT_KEPT = "StateNotPreserved"  # a rule of statePreservation found no value, or a value that fits no label
LOST = "Lost"  # the copy of a job is gone after it ran; also the reason of the job's condition Failed
NAME_TAKEN = "NameTaken"  # the copy of an earlier job of the name is in a member, without its job
FINISHED_FOUND = "FinishedWorkFound"  # an attempt that the hub had given up succeeded
NODE_AVOIDED = "NodeAvoided"  # on a Cluster
NO_POLICY = "NoPolicy"  # no policy takes a job or another object with pods
QUEUE_REQUIRED = "QueueRequired"  # a job waits in a queue although its policy does not say so
QUEUE_FAILED = "QueueFailed"  # on the ElasticQuotaTree: a node of it has no Queue
POLICY_FAILED = "ApplyPolicyFailed"
DECISION_FAILED = "DecisionFailed"  # on the Namespace fleet-system

# -- names that the hub itself writes under
CONTROLLERS_USER = "system:fleet:controllers"
PEER_USER = "system:fleet:peer"  # a process of the hub, towards another one
AGENT_USER = "system:fleet:agent:"  # with the name of a member: its agent

FIELD_MANAGER = "fleet"  # of every write that Fleet makes, on the hub and in members


def binding_name(kind: str, name: str) -> str:
    """The ResourceBinding of an object: "pytorch-test-pytorchjob" for the PyTorchJob pytorch-test."""
    return f"{name}-{kind}".lower()


def unit_name(binding: str) -> str:
    return binding + UNIT_SUFFIX
