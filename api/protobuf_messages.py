"""Field numbers of the messages that typed clients write, as facts: message, then `number name type flags`.

Types: string, bytes (base64 in JSON), bool, int, float, time, microtime, duration, quantity, intstr, raw (JSON inside),
strings (a message of strings), map:TYPE (keys are strings), or another message. Flags: `*` repeated, `!` kept when
it is zero (a pointer in Go, or never omitted), `^` inlined into its parent.
"""

from __future__ import annotations

MESSAGES = """
authn.BoundObjectReference: 1 kind string, 2 apiVersion string, 3 name string, 4 uid string
authn.SelfSubjectReview: 1 metadata meta.ObjectMeta, 2 status authn.SelfSubjectReviewStatus
authn.SelfSubjectReviewStatus: 1 userInfo authn.UserInfo
authn.TokenRequest: 1 metadata meta.ObjectMeta, 2 spec authn.TokenRequestSpec, 3 status authn.TokenRequestStatus
authn.TokenRequestSpec: 1 audiences string*, 3 boundObjectRef authn.BoundObjectReference!, 4 expirationSeconds int!
authn.TokenRequestStatus: 1 token string!, 2 expirationTimestamp time
authn.TokenReview: 1 metadata meta.ObjectMeta, 2 spec authn.TokenReviewSpec, 3 status authn.TokenReviewStatus
authn.TokenReviewSpec: 1 token string, 2 audiences string*
authn.TokenReviewStatus: 1 authenticated bool, 2 user authn.UserInfo, 3 error string, 4 audiences string*
authn.UserInfo: 1 username string, 2 uid string, 3 groups string*, 4 extra map:strings
authz.FieldSelectorAttributes: 1 rawSelector string, 2 requirements meta.FieldSelectorRequirement*
authz.LabelSelectorAttributes: 1 rawSelector string, 2 requirements meta.LabelSelectorRequirement*
authz.LocalSubjectAccessReview: 1 metadata meta.ObjectMeta, 2 spec authz.SubjectAccessReviewSpec, 3 status
  authz.SubjectAccessReviewStatus
authz.NonResourceAttributes: 1 path string, 2 verb string
authz.NonResourceRule: 1 verbs string*, 2 nonResourceURLs string*
authz.ResourceAttributes: 1 namespace string, 2 verb string, 3 group string, 4 version string, 5 resource string, 6
  subresource string, 7 name string, 8 fieldSelector authz.FieldSelectorAttributes!, 9 labelSelector
  authz.LabelSelectorAttributes!
authz.ResourceRule: 1 verbs string*, 2 apiGroups string*, 3 resources string*, 4 resourceNames string*
authz.SelfSubjectAccessReview: 1 metadata meta.ObjectMeta, 2 spec authz.SelfSubjectAccessReviewSpec, 3 status
  authz.SubjectAccessReviewStatus
authz.SelfSubjectAccessReviewSpec: 1 resourceAttributes authz.ResourceAttributes!, 2 nonResourceAttributes
  authz.NonResourceAttributes!
authz.SelfSubjectRulesReview: 1 metadata meta.ObjectMeta, 2 spec authz.SelfSubjectRulesReviewSpec, 3 status
  authz.SubjectRulesReviewStatus
authz.SelfSubjectRulesReviewSpec: 1 namespace string
authz.SubjectAccessReview: 1 metadata meta.ObjectMeta, 2 spec authz.SubjectAccessReviewSpec, 3 status
  authz.SubjectAccessReviewStatus
authz.SubjectAccessReviewSpec: 1 resourceAttributes authz.ResourceAttributes!, 2 nonResourceAttributes
  authz.NonResourceAttributes!, 3 user string, 4 groups string*, 5 extra map:strings, 6 uid string
authz.SubjectAccessReviewStatus: 1 allowed bool!, 2 reason string, 3 evaluationError string, 4 denied bool
authz.SubjectRulesReviewStatus: 1 resourceRules authz.ResourceRule*, 2 nonResourceRules authz.NonResourceRule*, 3
  incomplete bool!, 4 evaluationError string
batch.Job: 1 metadata meta.ObjectMeta, 2 spec batch.JobSpec, 3 status batch.JobStatus
batch.JobCondition: 1 type string!, 2 status string!, 3 lastProbeTime time, 4 lastTransitionTime time, 5 reason
  string, 6 message string
batch.JobSpec: 1 parallelism int!, 2 completions int!, 3 activeDeadlineSeconds int!, 4 selector meta.LabelSelector!,
  5 manualSelector bool!, 6 template core.PodTemplateSpec, 7 backoffLimit int!, 8 ttlSecondsAfterFinished int!, 9
  completionMode string!, 10 suspend bool!, 11 podFailurePolicy batch.PodFailurePolicy!, 12 backoffLimitPerIndex
  int!, 13 maxFailedIndexes int!, 14 podReplacementPolicy string!, 15 managedBy string!, 16 successPolicy
  batch.SuccessPolicy!
batch.JobStatus: 1 conditions batch.JobCondition*, 2 startTime time!, 3 completionTime time!, 4 active int, 5
  succeeded int, 6 failed int, 7 completedIndexes string, 8 uncountedTerminatedPods batch.UncountedTerminatedPods!,
  9 ready int!, 10 failedIndexes string!, 11 terminating int!
batch.PodFailurePolicy: 1 rules batch.PodFailurePolicyRule*
batch.PodFailurePolicyOnExitCodesRequirement: 1 containerName string!, 2 operator string!, 3 values int*
batch.PodFailurePolicyOnPodConditionsPattern: 1 type string!, 2 status string!
batch.PodFailurePolicyRule: 1 action string!, 2 onExitCodes batch.PodFailurePolicyOnExitCodesRequirement!, 3
  onPodConditions batch.PodFailurePolicyOnPodConditionsPattern*
batch.SuccessPolicy: 1 rules batch.SuccessPolicyRule*
batch.SuccessPolicyRule: 1 succeededIndexes string!, 2 succeededCount int!
batch.UncountedTerminatedPods: 1 succeeded string*, 2 failed string*
coord.Lease: 1 metadata meta.ObjectMeta, 2 spec coord.LeaseSpec
coord.LeaseSpec: 1 holderIdentity string!, 2 leaseDurationSeconds int!, 3 acquireTime microtime!, 4 renewTime
  microtime!, 5 leaseTransitions int!, 6 strategy string!, 7 preferredHolder string!
core.AWSElasticBlockStoreVolumeSource: 1 volumeID string!, 2 fsType string, 3 partition int, 4 readOnly bool
core.Affinity: 1 nodeAffinity core.NodeAffinity!, 2 podAffinity core.PodAffinity!, 3 podAntiAffinity
  core.PodAntiAffinity!
core.AppArmorProfile: 1 type string!, 2 localhostProfile string!
core.AttachedVolume: 1 name string!, 2 devicePath string!
core.AzureDiskVolumeSource: 1 diskName string!, 2 diskURI string!, 3 cachingMode string!, 4 fsType string!, 5
  readOnly bool!, 6 kind string!
core.AzureFileVolumeSource: 1 secretName string!, 2 shareName string!, 3 readOnly bool
core.Binding: 1 metadata meta.ObjectMeta, 2 target core.ObjectReference
core.CSIVolumeSource: 1 driver string!, 2 readOnly bool!, 3 fsType string!, 4 volumeAttributes map:string, 5
  nodePublishSecretRef core.LocalObjectReference!
core.Capabilities: 1 add string*, 2 drop string*
core.CephFSVolumeSource: 1 monitors string*, 2 path string, 3 user string, 4 secretFile string, 5 secretRef
  core.LocalObjectReference!, 6 readOnly bool
core.CinderVolumeSource: 1 volumeID string!, 2 fsType string, 3 readOnly bool, 4 secretRef
  core.LocalObjectReference!
core.ClientIPConfig: 1 timeoutSeconds int!
core.ClusterTrustBundleProjection: 1 name string!, 2 signerName string!, 3 labelSelector meta.LabelSelector!, 4 path
  string!, 5 optional bool!
core.ConfigMap: 1 metadata meta.ObjectMeta, 2 data map:string, 3 binaryData map:bytes, 4 immutable bool!
core.ConfigMapEnvSource: 1 - core.LocalObjectReference^, 2 optional bool!
core.ConfigMapKeySelector: 1 - core.LocalObjectReference^, 2 key string!, 3 optional bool!
core.ConfigMapNodeConfigSource: 1 namespace string!, 2 name string!, 3 uid string, 4 resourceVersion string, 5
  kubeletConfigKey string!
core.ConfigMapProjection: 1 - core.LocalObjectReference^, 2 items core.KeyToPath*, 4 optional bool!
core.ConfigMapVolumeSource: 1 - core.LocalObjectReference^, 2 items core.KeyToPath*, 3 defaultMode int!, 4 optional
  bool!
core.Container: 1 name string!, 2 image string, 3 command string*, 4 args string*, 5 workingDir string, 6 ports
  core.ContainerPort*, 7 env core.EnvVar*, 8 resources core.ResourceRequirements, 9 volumeMounts core.VolumeMount*,
  10 livenessProbe core.Probe!, 11 readinessProbe core.Probe!, 12 lifecycle core.Lifecycle!, 13
  terminationMessagePath string, 14 imagePullPolicy string, 15 securityContext core.SecurityContext!, 16 stdin bool,
  17 stdinOnce bool, 18 tty bool, 19 envFrom core.EnvFromSource*, 20 terminationMessagePolicy string, 21
  volumeDevices core.VolumeDevice*, 22 startupProbe core.Probe!, 23 resizePolicy core.ContainerResizePolicy*, 24
  restartPolicy string!, 25 restartPolicyRules core.ContainerRestartRule*
core.ContainerExtendedResourceRequest: 1 containerName string!, 2 resourceName string!, 3 requestName string!
core.ContainerImage: 1 names string*, 2 sizeBytes int
core.ContainerPort: 1 name string, 2 hostPort int, 3 containerPort int!, 4 protocol string, 5 hostIP string
core.ContainerResizePolicy: 1 resourceName string!, 2 restartPolicy string!
core.ContainerRestartRule: 1 action string, 2 exitCodes core.ContainerRestartRuleOnExitCodes!
core.ContainerRestartRuleOnExitCodes: 1 operator string, 2 values int*
core.ContainerState: 1 waiting core.ContainerStateWaiting!, 2 running core.ContainerStateRunning!, 3 terminated
  core.ContainerStateTerminated!
core.ContainerStateRunning: 1 startedAt time
core.ContainerStateTerminated: 1 exitCode int!, 2 signal int, 3 reason string, 4 message string, 5 startedAt time, 6
  finishedAt time, 7 containerID string
core.ContainerStateWaiting: 1 reason string, 2 message string
core.ContainerStatus: 1 name string!, 2 state core.ContainerState, 3 lastState core.ContainerState, 4 ready bool!, 5
  restartCount int!, 6 image string!, 7 imageID string!, 8 containerID string, 9 started bool!, 10
  allocatedResources map:quantity, 11 resources core.ResourceRequirements!, 12 volumeMounts core.VolumeMountStatus*,
  13 user core.ContainerUser!, 14 allocatedResourcesStatus core.ResourceStatus*, 15 stopSignal string!
core.ContainerUser: 1 linux core.LinuxContainerUser!
core.DaemonEndpoint: 1 Port int!
core.DownwardAPIProjection: 1 items core.DownwardAPIVolumeFile*
core.DownwardAPIVolumeFile: 1 path string!, 2 fieldRef core.ObjectFieldSelector!, 3 resourceFieldRef
  core.ResourceFieldSelector!, 4 mode int!
core.DownwardAPIVolumeSource: 1 items core.DownwardAPIVolumeFile*, 2 defaultMode int!
core.EmptyDirVolumeSource: 1 medium string, 2 sizeLimit quantity!
core.EnvFromSource: 1 prefix string, 2 configMapRef core.ConfigMapEnvSource!, 3 secretRef core.SecretEnvSource!
core.EnvVar: 1 name string!, 2 value string, 3 valueFrom core.EnvVarSource!
core.EnvVarSource: 1 fieldRef core.ObjectFieldSelector!, 2 resourceFieldRef core.ResourceFieldSelector!, 3
  configMapKeyRef core.ConfigMapKeySelector!, 4 secretKeyRef core.SecretKeySelector!, 5 fileKeyRef
  core.FileKeySelector!
core.EphemeralContainer: 1 - core.EphemeralContainerCommon^, 2 targetContainerName string
core.EphemeralContainerCommon: 1 name string!, 2 image string, 3 command string*, 4 args string*, 5 workingDir
  string, 6 ports core.ContainerPort*, 7 env core.EnvVar*, 8 resources core.ResourceRequirements, 9 volumeMounts
  core.VolumeMount*, 10 livenessProbe core.Probe!, 11 readinessProbe core.Probe!, 12 lifecycle core.Lifecycle!, 13
  terminationMessagePath string, 14 imagePullPolicy string, 15 securityContext core.SecurityContext!, 16 stdin bool,
  17 stdinOnce bool, 18 tty bool, 19 envFrom core.EnvFromSource*, 20 terminationMessagePolicy string, 21
  volumeDevices core.VolumeDevice*, 22 startupProbe core.Probe!, 23 resizePolicy core.ContainerResizePolicy*, 24
  restartPolicy string!, 25 restartPolicyRules core.ContainerRestartRule*
core.EphemeralVolumeSource: 1 volumeClaimTemplate core.PersistentVolumeClaimTemplate!
core.Event: 1 metadata meta.ObjectMeta, 2 involvedObject core.ObjectReference, 3 reason string, 4 message string, 5
  source core.EventSource, 6 firstTimestamp time, 7 lastTimestamp time, 8 count int, 9 type string, 10 eventTime
  microtime, 11 series core.EventSeries!, 12 action string, 13 related core.ObjectReference!, 14 reportingComponent
  string!, 15 reportingInstance string!
core.EventSeries: 1 count int, 2 lastObservedTime microtime
core.EventSource: 1 component string, 2 host string
core.ExecAction: 1 command string*
core.FCVolumeSource: 1 targetWWNs string*, 2 lun int!, 3 fsType string, 4 readOnly bool, 5 wwids string*
core.FileKeySelector: 1 volumeName string!, 2 path string!, 3 key string!, 4 optional bool!
core.FlexVolumeSource: 1 driver string!, 2 fsType string, 3 secretRef core.LocalObjectReference!, 4 readOnly bool, 5
  options map:string
core.FlockerVolumeSource: 1 datasetName string, 2 datasetUUID string
core.GCEPersistentDiskVolumeSource: 1 pdName string!, 2 fsType string, 3 partition int, 4 readOnly bool
core.GRPCAction: 1 port int!, 2 service string!
core.GitRepoVolumeSource: 1 repository string!, 2 revision string, 3 directory string
core.GlusterfsVolumeSource: 1 endpoints string!, 2 path string!, 3 readOnly bool
core.HTTPGetAction: 1 path string, 2 port intstr, 3 host string, 4 scheme string, 5 httpHeaders core.HTTPHeader*
core.HTTPHeader: 1 name string!, 2 value string!
core.HostAlias: 1 ip string!, 2 hostnames string*
core.HostIP: 1 ip string!
core.HostPathVolumeSource: 1 path string!, 2 type string!
core.ISCSIVolumeSource: 1 targetPortal string!, 2 iqn string!, 3 lun int!, 4 iscsiInterface string, 5 fsType string,
  6 readOnly bool, 7 portals string*, 8 chapAuthDiscovery bool, 10 secretRef core.LocalObjectReference!, 11
  chapAuthSession bool, 12 initiatorName string!
core.ImageVolumeSource: 1 reference string, 2 pullPolicy string
core.ImageVolumeStatus: 1 imageRef string
core.KeyToPath: 1 key string!, 2 path string!, 3 mode int!
core.Lifecycle: 1 postStart core.LifecycleHandler!, 2 preStop core.LifecycleHandler!, 3 stopSignal string!
core.LifecycleHandler: 1 exec core.ExecAction!, 2 httpGet core.HTTPGetAction!, 3 tcpSocket core.TCPSocketAction!, 4
  sleep core.SleepAction!
core.LimitRange: 1 metadata meta.ObjectMeta, 2 spec core.LimitRangeSpec
core.LimitRangeItem: 1 type string!, 2 max map:quantity, 3 min map:quantity, 4 default map:quantity, 5
  defaultRequest map:quantity, 6 maxLimitRequestRatio map:quantity
core.LimitRangeSpec: 1 limits core.LimitRangeItem*
core.LinuxContainerUser: 1 uid int!, 2 gid int!, 3 supplementalGroups int*
core.LoadBalancerIngress: 1 ip string, 2 hostname string, 3 ipMode string!, 4 ports core.PortStatus*
core.LoadBalancerStatus: 1 ingress core.LoadBalancerIngress*
core.LocalObjectReference: 1 name string
core.ModifyVolumeStatus: 1 targetVolumeAttributesClassName string, 2 status string!
core.NFSVolumeSource: 1 server string!, 2 path string!, 3 readOnly bool
core.Namespace: 1 metadata meta.ObjectMeta, 2 spec core.NamespaceSpec, 3 status core.NamespaceStatus
core.NamespaceCondition: 1 type string!, 2 status string!, 4 lastTransitionTime time, 5 reason string, 6 message
  string
core.NamespaceSpec: 1 finalizers string*
core.NamespaceStatus: 1 phase string, 2 conditions core.NamespaceCondition*
core.Node: 1 metadata meta.ObjectMeta, 2 spec core.NodeSpec, 3 status core.NodeStatus
core.NodeAddress: 1 type string!, 2 address string!
core.NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution core.NodeSelector!, 2
  preferredDuringSchedulingIgnoredDuringExecution core.PreferredSchedulingTerm*
core.NodeAllocatableResourceClaimStatus: 1 resourceClaimName string!, 2 containers string*, 3 resources map:quantity
core.NodeCondition: 1 type string!, 2 status string!, 3 lastHeartbeatTime time, 4 lastTransitionTime time, 5 reason
  string, 6 message string
core.NodeConfigSource: 2 configMap core.ConfigMapNodeConfigSource!
core.NodeConfigStatus: 1 assigned core.NodeConfigSource!, 2 active core.NodeConfigSource!, 3 lastKnownGood
  core.NodeConfigSource!, 4 error string
core.NodeDaemonEndpoints: 1 kubeletEndpoint core.DaemonEndpoint
core.NodeFeatures: 1 supplementalGroupsPolicy bool!
core.NodeRuntimeHandler: 1 name string!, 2 features core.NodeRuntimeHandlerFeatures!
core.NodeRuntimeHandlerFeatures: 1 recursiveReadOnlyMounts bool!, 2 userNamespaces bool!
core.NodeSelector: 1 nodeSelectorTerms core.NodeSelectorTerm*
core.NodeSelectorRequirement: 1 key string!, 2 operator string!, 3 values string*
core.NodeSelectorTerm: 1 matchExpressions core.NodeSelectorRequirement*, 2 matchFields core.NodeSelectorRequirement*
core.NodeSpec: 1 podCIDR string, 2 externalID string, 3 providerID string, 4 unschedulable bool, 5 taints
  core.Taint*, 6 configSource core.NodeConfigSource!, 7 podCIDRs string*
core.NodeStatus: 1 capacity map:quantity, 2 allocatable map:quantity, 3 phase string, 4 conditions
  core.NodeCondition*, 5 addresses core.NodeAddress*, 6 daemonEndpoints core.NodeDaemonEndpoints, 7 nodeInfo
  core.NodeSystemInfo, 8 images core.ContainerImage*, 9 volumesInUse string*, 10 volumesAttached
  core.AttachedVolume*, 11 config core.NodeConfigStatus!, 12 runtimeHandlers core.NodeRuntimeHandler*, 13 features
  core.NodeFeatures!, 14 declaredFeatures string*
core.NodeSwapStatus: 1 capacity int!
core.NodeSystemInfo: 1 machineID string!, 2 systemUUID string!, 3 bootID string!, 4 kernelVersion string!, 5 osImage
  string!, 6 containerRuntimeVersion string!, 7 kubeletVersion string!, 8 kubeProxyVersion string!, 9
  operatingSystem string!, 10 architecture string!, 11 swap core.NodeSwapStatus!
core.ObjectFieldSelector: 1 apiVersion string, 2 fieldPath string!
core.ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string, 6
  resourceVersion string, 7 fieldPath string
core.PersistentVolumeClaim: 1 metadata meta.ObjectMeta, 2 spec core.PersistentVolumeClaimSpec, 3 status
  core.PersistentVolumeClaimStatus
core.PersistentVolumeClaimCondition: 1 type string!, 2 status string!, 3 lastProbeTime time, 4 lastTransitionTime
  time, 5 reason string, 6 message string
core.PersistentVolumeClaimSpec: 1 accessModes string*, 2 resources core.VolumeResourceRequirements, 3 volumeName
  string, 4 selector meta.LabelSelector!, 5 storageClassName string!, 6 volumeMode string!, 7 dataSource
  core.TypedLocalObjectReference!, 8 dataSourceRef core.TypedObjectReference!, 9 volumeAttributesClassName string!
core.PersistentVolumeClaimStatus: 1 phase string, 2 accessModes string*, 3 capacity map:quantity, 4 conditions
  core.PersistentVolumeClaimCondition*, 5 allocatedResources map:quantity, 7 allocatedResourceStatuses map:string, 8
  currentVolumeAttributesClassName string!, 9 modifyVolumeStatus core.ModifyVolumeStatus!
core.PersistentVolumeClaimTemplate: 1 metadata meta.ObjectMeta, 2 spec core.PersistentVolumeClaimSpec
core.PersistentVolumeClaimVolumeSource: 1 claimName string!, 2 readOnly bool
core.PhotonPersistentDiskVolumeSource: 1 pdID string!, 2 fsType string
core.Pod: 1 metadata meta.ObjectMeta, 2 spec core.PodSpec, 3 status core.PodStatus
core.PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution core.PodAffinityTerm*, 2
  preferredDuringSchedulingIgnoredDuringExecution core.WeightedPodAffinityTerm*
core.PodAffinityTerm: 1 labelSelector meta.LabelSelector!, 2 namespaces string*, 3 topologyKey string!, 4
  namespaceSelector meta.LabelSelector!, 5 matchLabelKeys string*, 6 mismatchLabelKeys string*
core.PodAntiAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution core.PodAffinityTerm*, 2
  preferredDuringSchedulingIgnoredDuringExecution core.WeightedPodAffinityTerm*
core.PodCertificateProjection: 1 signerName string, 2 keyType string, 3 maxExpirationSeconds int!, 4
  credentialBundlePath string, 5 keyPath string, 6 certificateChainPath string, 7 userAnnotations map:string
core.PodCondition: 1 type string!, 2 status string!, 3 lastProbeTime time, 4 lastTransitionTime time, 5 reason
  string, 6 message string, 7 observedGeneration int
core.PodDNSConfig: 1 nameservers string*, 2 searches string*, 3 options core.PodDNSConfigOption*
core.PodDNSConfigOption: 1 name string, 2 value string!
core.PodExtendedResourceClaimStatus: 1 requestMappings core.ContainerExtendedResourceRequest*, 2 resourceClaimName
  string!
core.PodIP: 1 ip string!
core.PodOS: 1 name string!
core.PodReadinessGate: 1 conditionType string!
core.PodResourceClaim: 1 name string!, 3 resourceClaimName string!, 4 resourceClaimTemplateName string!
core.PodResourceClaimStatus: 1 name string!, 2 resourceClaimName string!
core.PodSchedulingGate: 1 name string!
core.PodSchedulingGroup: 1 podGroupName string!
core.PodSecurityContext: 1 seLinuxOptions core.SELinuxOptions!, 2 runAsUser int!, 3 runAsNonRoot bool!, 4
  supplementalGroups int*, 5 fsGroup int!, 6 runAsGroup int!, 7 sysctls core.Sysctl*, 8 windowsOptions
  core.WindowsSecurityContextOptions!, 9 fsGroupChangePolicy string!, 10 seccompProfile core.SeccompProfile!, 11
  appArmorProfile core.AppArmorProfile!, 12 supplementalGroupsPolicy string!, 13 seLinuxChangePolicy string!
core.PodSpec: 1 volumes core.Volume*, 2 containers core.Container*, 3 restartPolicy string, 4
  terminationGracePeriodSeconds int!, 5 activeDeadlineSeconds int!, 6 dnsPolicy string, 7 nodeSelector map:string, 8
  serviceAccountName string, 9 serviceAccount string, 10 nodeName string, 11 hostNetwork bool, 12 hostPID bool, 13
  hostIPC bool, 14 securityContext core.PodSecurityContext!, 15 imagePullSecrets core.LocalObjectReference*, 16
  hostname string, 17 subdomain string, 18 affinity core.Affinity!, 19 schedulerName string, 20 initContainers
  core.Container*, 21 automountServiceAccountToken bool!, 22 tolerations core.Toleration*, 23 hostAliases
  core.HostAlias*, 24 priorityClassName string, 25 priority int!, 26 dnsConfig core.PodDNSConfig!, 27
  shareProcessNamespace bool!, 28 readinessGates core.PodReadinessGate*, 29 runtimeClassName string!, 30
  enableServiceLinks bool!, 31 preemptionPolicy string!, 32 overhead map:quantity, 33 topologySpreadConstraints
  core.TopologySpreadConstraint*, 34 ephemeralContainers core.EphemeralContainer*, 35 setHostnameAsFQDN bool!, 36 os
  core.PodOS!, 37 hostUsers bool!, 38 schedulingGates core.PodSchedulingGate*, 39 resourceClaims
  core.PodResourceClaim*, 40 resources core.ResourceRequirements!, 41 hostnameOverride string!, 43 schedulingGroup
  core.PodSchedulingGroup!
core.PodStatus: 1 phase string, 2 conditions core.PodCondition*, 3 message string, 4 reason string, 5 hostIP string,
  6 podIP string, 7 startTime time!, 8 containerStatuses core.ContainerStatus*, 9 qosClass string, 10
  initContainerStatuses core.ContainerStatus*, 11 nominatedNodeName string, 12 podIPs core.PodIP*, 13
  ephemeralContainerStatuses core.ContainerStatus*, 14 resize string, 15 resourceClaimStatuses
  core.PodResourceClaimStatus*, 16 hostIPs core.HostIP*, 17 observedGeneration int, 18 extendedResourceClaimStatus
  core.PodExtendedResourceClaimStatus!, 19 allocatedResources map:quantity, 20 resources core.ResourceRequirements!,
  21 nodeAllocatableResourceClaimStatuses core.NodeAllocatableResourceClaimStatus*
core.PodTemplateSpec: 1 metadata meta.ObjectMeta, 2 spec core.PodSpec
core.PortStatus: 1 port int!, 2 protocol string!, 3 error string!
core.PortworxVolumeSource: 1 volumeID string!, 2 fsType string, 3 readOnly bool
core.PreferredSchedulingTerm: 1 weight int!, 2 preference core.NodeSelectorTerm
core.Probe: 1 - core.ProbeHandler^, 2 initialDelaySeconds int, 3 timeoutSeconds int, 4 periodSeconds int, 5
  successThreshold int, 6 failureThreshold int, 7 terminationGracePeriodSeconds int!
core.ProbeHandler: 1 exec core.ExecAction!, 2 httpGet core.HTTPGetAction!, 3 tcpSocket core.TCPSocketAction!, 4 grpc
  core.GRPCAction!
core.ProjectedVolumeSource: 1 sources core.VolumeProjection*, 2 defaultMode int!
core.QuobyteVolumeSource: 1 registry string!, 2 volume string!, 3 readOnly bool, 4 user string, 5 group string, 6
  tenant string
core.RBDVolumeSource: 1 monitors string*, 2 image string!, 3 fsType string, 4 pool string, 5 user string, 6 keyring
  string, 7 secretRef core.LocalObjectReference!, 8 readOnly bool
core.ResourceClaim: 1 name string!, 2 request string
core.ResourceFieldSelector: 1 containerName string, 2 resource string!, 3 divisor quantity
core.ResourceHealth: 1 resourceID string!, 2 health string, 6 message string!
core.ResourceQuota: 1 metadata meta.ObjectMeta, 2 spec core.ResourceQuotaSpec, 3 status core.ResourceQuotaStatus
core.ResourceQuotaSpec: 1 hard map:quantity, 2 scopes string*, 3 scopeSelector core.ScopeSelector!
core.ResourceQuotaStatus: 1 hard map:quantity, 2 used map:quantity
core.ResourceRequirements: 1 limits map:quantity, 2 requests map:quantity, 3 claims core.ResourceClaim*
core.ResourceStatus: 1 name string!, 2 resources core.ResourceHealth*
core.SELinuxOptions: 1 user string, 2 role string, 3 type string, 4 level string
core.ScaleIOVolumeSource: 1 gateway string!, 2 system string!, 3 secretRef core.LocalObjectReference!, 4 sslEnabled
  bool, 5 protectionDomain string, 6 storagePool string, 7 storageMode string, 8 volumeName string, 9 fsType string,
  10 readOnly bool
core.ScopeSelector: 1 matchExpressions core.ScopedResourceSelectorRequirement*
core.ScopedResourceSelectorRequirement: 1 scopeName string!, 2 operator string!, 3 values string*
core.SeccompProfile: 1 type string!, 2 localhostProfile string!
core.Secret: 1 metadata meta.ObjectMeta, 2 data map:bytes, 3 type string, 4 stringData map:string, 5 immutable bool!
core.SecretEnvSource: 1 - core.LocalObjectReference^, 2 optional bool!
core.SecretKeySelector: 1 - core.LocalObjectReference^, 2 key string!, 3 optional bool!
core.SecretProjection: 1 - core.LocalObjectReference^, 2 items core.KeyToPath*, 4 optional bool!
core.SecretVolumeSource: 1 secretName string, 2 items core.KeyToPath*, 3 defaultMode int!, 4 optional bool!
core.SecurityContext: 1 capabilities core.Capabilities!, 2 privileged bool!, 3 seLinuxOptions core.SELinuxOptions!,
  4 runAsUser int!, 5 runAsNonRoot bool!, 6 readOnlyRootFilesystem bool!, 7 allowPrivilegeEscalation bool!, 8
  runAsGroup int!, 9 procMount string!, 10 windowsOptions core.WindowsSecurityContextOptions!, 11 seccompProfile
  core.SeccompProfile!, 12 appArmorProfile core.AppArmorProfile!
core.Service: 1 metadata meta.ObjectMeta, 2 spec core.ServiceSpec, 3 status core.ServiceStatus
core.ServiceAccount: 1 metadata meta.ObjectMeta, 2 secrets core.ObjectReference*, 3 imagePullSecrets
  core.LocalObjectReference*, 4 automountServiceAccountToken bool!
core.ServiceAccountTokenProjection: 1 audience string, 2 expirationSeconds int!, 3 path string!
core.ServicePort: 1 name string, 2 protocol string, 3 port int!, 4 targetPort intstr, 5 nodePort int, 6 appProtocol
  string!
core.ServiceSpec: 1 ports core.ServicePort*, 2 selector map:string, 3 clusterIP string, 4 type string, 5 externalIPs
  string*, 7 sessionAffinity string, 8 loadBalancerIP string, 9 loadBalancerSourceRanges string*, 10 externalName
  string, 11 externalTrafficPolicy string, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool, 14
  sessionAffinityConfig core.SessionAffinityConfig!, 17 ipFamilyPolicy string!, 18 clusterIPs string*, 19 ipFamilies
  string*, 20 allocateLoadBalancerNodePorts bool!, 21 loadBalancerClass string!, 22 internalTrafficPolicy string!,
  23 trafficDistribution string!
core.ServiceStatus: 1 loadBalancer core.LoadBalancerStatus, 2 conditions meta.Condition*
core.SessionAffinityConfig: 1 clientIP core.ClientIPConfig!
core.SleepAction: 1 seconds int!
core.StorageOSVolumeSource: 1 volumeName string, 2 volumeNamespace string, 3 fsType string, 4 readOnly bool, 5
  secretRef core.LocalObjectReference!
core.Sysctl: 1 name string!, 2 value string!
core.TCPSocketAction: 1 port intstr, 2 host string
core.Taint: 1 key string!, 2 value string, 3 effect string!, 4 timeAdded time!
core.Toleration: 1 key string, 2 operator string, 3 value string, 4 effect string, 5 tolerationSeconds int!
core.TopologySpreadConstraint: 1 maxSkew int!, 2 topologyKey string!, 3 whenUnsatisfiable string!, 4 labelSelector
  meta.LabelSelector!, 5 minDomains int!, 6 nodeAffinityPolicy string!, 7 nodeTaintsPolicy string!, 8 matchLabelKeys
  string*
core.TypedLocalObjectReference: 1 apiGroup string!, 2 kind string!, 3 name string!
core.TypedObjectReference: 1 apiGroup string!, 2 kind string!, 3 name string!, 4 namespace string!
core.Volume: 1 name string!, 2 - core.VolumeSource^
core.VolumeDevice: 1 name string!, 2 devicePath string!
core.VolumeMount: 1 name string!, 2 readOnly bool, 3 mountPath string!, 4 subPath string, 5 mountPropagation
  string!, 6 subPathExpr string, 7 recursiveReadOnly string!
core.VolumeMountStatus: 1 name string!, 2 mountPath string!, 3 readOnly bool, 4 recursiveReadOnly string!, 5
  volumeStatus core.VolumeStatus!
core.VolumeProjection: 1 secret core.SecretProjection!, 2 downwardAPI core.DownwardAPIProjection!, 3 configMap
  core.ConfigMapProjection!, 4 serviceAccountToken core.ServiceAccountTokenProjection!, 5 clusterTrustBundle
  core.ClusterTrustBundleProjection!, 6 podCertificate core.PodCertificateProjection!
core.VolumeResourceRequirements: 1 limits map:quantity, 2 requests map:quantity
core.VolumeSource: 1 hostPath core.HostPathVolumeSource!, 2 emptyDir core.EmptyDirVolumeSource!, 3 gcePersistentDisk
  core.GCEPersistentDiskVolumeSource!, 4 awsElasticBlockStore core.AWSElasticBlockStoreVolumeSource!, 5 gitRepo
  core.GitRepoVolumeSource!, 6 secret core.SecretVolumeSource!, 7 nfs core.NFSVolumeSource!, 8 iscsi
  core.ISCSIVolumeSource!, 9 glusterfs core.GlusterfsVolumeSource!, 10 persistentVolumeClaim
  core.PersistentVolumeClaimVolumeSource!, 11 rbd core.RBDVolumeSource!, 12 flexVolume core.FlexVolumeSource!, 13
  cinder core.CinderVolumeSource!, 14 cephfs core.CephFSVolumeSource!, 15 flocker core.FlockerVolumeSource!, 16
  downwardAPI core.DownwardAPIVolumeSource!, 17 fc core.FCVolumeSource!, 18 azureFile core.AzureFileVolumeSource!,
  19 configMap core.ConfigMapVolumeSource!, 20 vsphereVolume core.VsphereVirtualDiskVolumeSource!, 21 quobyte
  core.QuobyteVolumeSource!, 22 azureDisk core.AzureDiskVolumeSource!, 23 photonPersistentDisk
  core.PhotonPersistentDiskVolumeSource!, 24 portworxVolume core.PortworxVolumeSource!, 25 scaleIO
  core.ScaleIOVolumeSource!, 26 projected core.ProjectedVolumeSource!, 27 storageos core.StorageOSVolumeSource!, 28
  csi core.CSIVolumeSource!, 29 ephemeral core.EphemeralVolumeSource!, 30 image core.ImageVolumeSource!
core.VolumeStatus: 1 image core.ImageVolumeStatus!
core.VsphereVirtualDiskVolumeSource: 1 volumePath string!, 2 fsType string, 3 storagePolicyName string, 4
  storagePolicyID string
core.WeightedPodAffinityTerm: 1 weight int!, 2 podAffinityTerm core.PodAffinityTerm
core.WindowsSecurityContextOptions: 1 gmsaCredentialSpecName string!, 2 gmsaCredentialSpec string!, 3 runAsUserName
  string!, 4 hostProcess bool!
events.Event: 1 metadata meta.ObjectMeta, 2 eventTime microtime, 3 series events.EventSeries!, 4 reportingController
  string, 5 reportingInstance string, 6 action string, 7 reason string, 8 regarding core.ObjectReference, 9 related
  core.ObjectReference!, 10 note string, 11 type string, 12 deprecatedSource core.EventSource, 13
  deprecatedFirstTimestamp time, 14 deprecatedLastTimestamp time, 15 deprecatedCount int
events.EventSeries: 1 count int!, 2 lastObservedTime microtime
meta.Condition: 1 type string!, 2 status string!, 3 observedGeneration int, 4 lastTransitionTime time, 5 reason
  string!, 6 message string!
meta.DeleteOptions: 1 gracePeriodSeconds int!, 2 preconditions meta.Preconditions!, 3 orphanDependents bool!, 4
  propagationPolicy string!, 5 dryRun string*, 6 ignoreStoreReadErrorWithClusterBreakingPotential bool!
meta.FieldSelectorRequirement: 1 key string!, 2 operator string!, 3 values string*
meta.LabelSelector: 1 matchLabels map:string, 2 matchExpressions meta.LabelSelectorRequirement*
meta.LabelSelectorRequirement: 1 key string!, 2 operator string!, 3 values string*
meta.ManagedFieldsEntry: 1 manager string, 2 operation string, 3 apiVersion string, 4 time time!, 6 fieldsType
  string, 7 fieldsV1 raw!, 8 subresource string
meta.ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink string, 5 uid string, 6
  resourceVersion string, 7 generation int, 8 creationTimestamp time, 9 deletionTimestamp time!, 10
  deletionGracePeriodSeconds int!, 11 labels map:string, 12 annotations map:string, 13 ownerReferences
  meta.OwnerReference*, 14 finalizers string*, 17 managedFields meta.ManagedFieldsEntry*
meta.OwnerReference: 1 kind string!, 3 name string!, 4 uid string!, 5 apiVersion string!, 6 controller bool!, 7
  blockOwnerDeletion bool!
meta.Preconditions: 1 uid string!, 2 resourceVersion string!
policy.Eviction: 1 metadata meta.ObjectMeta, 2 deleteOptions meta.DeleteOptions!
rbac.AggregationRule: 1 clusterRoleSelectors meta.LabelSelector*
rbac.ClusterRole: 1 metadata meta.ObjectMeta, 2 rules rbac.PolicyRule*, 3 aggregationRule rbac.AggregationRule!
rbac.ClusterRoleBinding: 1 metadata meta.ObjectMeta, 2 subjects rbac.Subject*, 3 roleRef rbac.RoleRef
rbac.PolicyRule: 1 verbs string*, 2 apiGroups string*, 3 resources string*, 4 resourceNames string*, 5
  nonResourceURLs string*
rbac.Role: 1 metadata meta.ObjectMeta, 2 rules rbac.PolicyRule*
rbac.RoleBinding: 1 metadata meta.ObjectMeta, 2 subjects rbac.Subject*, 3 roleRef rbac.RoleRef
rbac.RoleRef: 1 apiGroup string!, 2 kind string!, 3 name string!
rbac.Subject: 1 kind string!, 2 apiGroup string, 3 name string!, 4 namespace string
scale.Scale: 1 metadata meta.ObjectMeta, 2 spec scale.ScaleSpec, 3 status scale.ScaleStatus
scale.ScaleSpec: 1 replicas int
scale.ScaleStatus: 1 replicas int!, 2 selector string
sched.PriorityClass: 1 metadata meta.ObjectMeta, 2 value int!, 3 globalDefault bool, 4 description string, 5
  preemptionPolicy string!
"""
