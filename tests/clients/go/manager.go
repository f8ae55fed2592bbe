package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	group     = "clients.example.org"
	finalizer = group + "/finalizer"
	jobCount  = group + "/reconciled"
)

var (
	widgets = schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}
	jobs    = schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}
)

func object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(kind)
	made.SetNamespace(namespace)
	made.SetName(name)
	return made
}

// definition is the CRD of Widgets: a size, a status, a count of what is ready.
func definition() *apiextensionsv1.CustomResourceDefinition {
	properties := func(names ...string) apiextensionsv1.JSONSchemaProps {
		found := map[string]apiextensionsv1.JSONSchemaProps{}
		for _, name := range names {
			found[name] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		}
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: found}
	}
	fields := map[string]apiextensionsv1.JSONSchemaProps{
		"spec": properties("size", "turns"), "status": properties("ready", "observedGeneration"),
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields},
				},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// manager plays a controller-runtime manager with a reconciler of Widgets and one of PyTorchJobs.
func manager(ctx context.Context, config *rest.Config, arguments []string) error {
	space := arguments[0]
	scheme := clientgoscheme.Scheme
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	outside, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := outside.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}); err != nil {
		return err
	}
	if err := define(ctx, outside); err != nil {
		return err
	}
	running, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: true,
		LeaderElectionID: "clients-manager", LeaderElectionNamespace: space, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	work := &reconcilers{Client: running.GetClient()}
	err = ctrl.NewControllerManagedBy(running).For(object(widgets, "", "")).Owns(&corev1.ConfigMap{}).Complete(work.of(work.widget))
	if err != nil {
		return err
	}
	if err = ctrl.NewControllerManagedBy(running).For(object(jobs, "", "")).Complete(work.of(work.job)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	inside, stop := context.WithCancel(ctx)
	go func() { ended <- running.Start(inside) }()
	for _, part := range []func(context.Context, client.Client, string) error{widgetLife, conflicts, jobLife} {
		if err := part(ctx, outside, space); err != nil {
			stop()
			return err
		}
	}
	see("reconciled", work.jobs.Load() > 0 && work.widgets.Load() > 0)
	stop()
	return <-ended
}

func define(ctx context.Context, outside client.Client) error {
	crd := definition()
	if err := outside.Create(ctx, crd); err != nil {
		return err
	}
	return until(ctx, "the CRD is established", func() (bool, error) {
		if err := outside.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// reconcilers reads through the manager's cache and writes through its client.
type reconcilers struct {
	client.Client
	widgets, jobs atomic.Int64
}

type reconciler func(context.Context, ctrl.Request) (ctrl.Result, error)

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return r(ctx, request)
}

// of tries again without a word where the cache was behind.
func (r *reconcilers) of(work func(context.Context, ctrl.Request) error) reconciler {
	return func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		err := work(ctx, request)
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: 1}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
}

func (r *reconcilers) widget(ctx context.Context, request ctrl.Request) error {
	r.widgets.Add(1)
	found := object(widgets, request.Namespace, request.Name)
	if err := r.Get(ctx, request.NamespacedName, found); err != nil {
		return err
	}
	if !found.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(found, finalizer)
		return r.Update(ctx, found)
	}
	if controllerutil.AddFinalizer(found, finalizer) {
		return r.Update(ctx, found)
	}
	size, _, _ := unstructured.NestedInt64(found.Object, "spec", "size")
	owner := applymeta.OwnerReference().WithAPIVersion(found.GetAPIVersion()).WithKind(found.GetKind()).
		WithName(found.GetName()).WithUID(found.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
	child := applycore.ConfigMap(found.GetName(), found.GetNamespace()).WithOwnerReferences(owner).
		WithData(map[string]string{"size": strconv.FormatInt(size, 10)})
	if err := r.Apply(ctx, child, client.FieldOwner("clients"), client.ForceOwnership); err != nil {
		return err
	}
	shown := map[string]any{"ready": size, "observedGeneration": found.GetGeneration()}
	if kept, _, _ := unstructured.NestedMap(found.Object, "status"); equality.Semantic.DeepEqual(kept, shown) {
		return nil
	}
	found.Object["status"] = shown
	return r.Status().Update(ctx, found)
}

// job counts how often a job was seen, in an annotation.
func (r *reconcilers) job(ctx context.Context, request ctrl.Request) error {
	r.jobs.Add(1)
	found := object(jobs, request.Namespace, request.Name)
	if err := r.Get(ctx, request.NamespacedName, found); err != nil {
		return err
	}
	if !found.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(found, finalizer)
		return r.Update(ctx, found)
	}
	notes := found.GetAnnotations()
	if notes[jobCount] != "" && !controllerutil.AddFinalizer(found, finalizer) {
		return nil
	}
	if notes == nil {
		notes = map[string]string{}
	}
	notes[jobCount] = "yes"
	found.SetAnnotations(notes)
	controllerutil.AddFinalizer(found, finalizer)
	return r.Update(ctx, found)
}

func widgetLife(ctx context.Context, outside client.Client, space string) error {
	made := object(widgets, space, "one")
	made.Object["spec"] = map[string]any{"size": int64(2), "turns": int64(0)}
	if err := outside.Create(ctx, made); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(made)
	for _, size := range []int64{2, 3} {
		if size > 2 {
			patch := []byte(fmt.Sprintf(`{"spec":{"size":%d}}`, size))
			if err := outside.Patch(ctx, made, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				return err
			}
		}
		err := until(ctx, "the status of the widget", func() (bool, error) {
			err := outside.Get(ctx, key, made)
			ready, _, _ := unstructured.NestedInt64(made.Object, "status", "ready")
			return ready == size, err
		})
		if err != nil {
			return err
		}
		see("widget", map[string]any{"status": made.Object["status"], "finalizers": made.GetFinalizers()})
	}
	child := &corev1.ConfigMap{}
	if err := outside.Get(ctx, key, child); err != nil {
		return err
	}
	owner := child.OwnerReferences[0]
	see("child", map[string]any{
		"data": child.Data, "kind": owner.Kind, "name": owner.Name, "mine": owner.UID == made.GetUID(),
		"managers": managers(child.ManagedFields)[0][:14],
	})
	if err := outside.Delete(ctx, made, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	err := until(ctx, "the widget and its child are gone", func() (bool, error) {
		return apierrors.IsNotFound(outside.Get(ctx, key, made)) && apierrors.IsNotFound(outside.Get(ctx, key, child)), nil
	})
	see("widget gone", err == nil)
	return err
}

// conflicts turns one widget from eight sides at once, with the retries that everybody uses.
func conflicts(ctx context.Context, outside client.Client, space string) error {
	made := object(widgets, space, "turned")
	made.Object["spec"] = map[string]any{"size": int64(1), "turns": int64(0)}
	if err := outside.Create(ctx, made); err != nil {
		return err
	}
	const sides, turns = 8, 5
	results := make(chan error, sides)
	for range sides {
		go func() {
			for range turns {
				many := retry.DefaultBackoff
				many.Steps = 100
				err := retry.RetryOnConflict(many, func() error {
					mine := object(widgets, space, "turned")
					if err := outside.Get(ctx, client.ObjectKeyFromObject(made), mine); err != nil {
						return err
					}
					count, _, _ := unstructured.NestedInt64(mine.Object, "spec", "turns")
					_ = unstructured.SetNestedField(mine.Object, count+1, "spec", "turns")
					return outside.Update(ctx, mine)
				})
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range sides {
		if err := <-results; err != nil {
			return err
		}
	}
	if err := outside.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
		return err
	}
	count, _, _ := unstructured.NestedInt64(made.Object, "spec", "turns")
	see("turns", count)
	return outside.Delete(ctx, made)
}

// jobLife follows a suspended PyTorchJob, whose own controller has no word in this.
func jobLife(ctx context.Context, outside client.Client, space string) error {
	made := object(jobs, space, "job")
	container := map[string]any{"name": "pytorch", "image": "train:1"}
	template := map[string]any{"spec": map[string]any{"containers": []any{container}}}
	made.Object["spec"] = map[string]any{
		"runPolicy":           map[string]any{"suspend": true},
		"pytorchReplicaSpecs": map[string]any{"Master": map[string]any{"replicas": int64(1), "template": template}},
	}
	if err := outside.Create(ctx, made); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(made)
	err := until(ctx, "the finalizer of the job", func() (bool, error) {
		err := outside.Get(ctx, key, made)
		return len(made.GetFinalizers()) > 0, err
	})
	if err != nil {
		return err
	}
	see("job", map[string]any{"finalizers": made.GetFinalizers(), "note": made.GetAnnotations()[jobCount]})
	if err := outside.Delete(ctx, made); err != nil {
		return err
	}
	err = until(ctx, "the job is gone", func() (bool, error) { return apierrors.IsNotFound(outside.Get(ctx, key, made)), nil })
	see("job gone", err == nil)
	return err
}
