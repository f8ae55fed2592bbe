package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var (
	namespaces = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	roles      = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	crds       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	gadgets    = schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}
)

// wanted is what a GitOps tool finds in its repository, kinds and their objects together.
func wanted(space string) []*unstructured.Unstructured {
	namespace, one, two := object(namespaces, "", space), object(configMaps, space, "one"), object(configMaps, space, "two")
	one.Object["data"] = map[string]any{"key": "1", "other": "1"}
	two.Object["data"] = map[string]any{"key": "2"}
	role := object(roles, space, "reader")
	role.Object["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}
	crd := definition()
	crd.Name = "gadgets." + group
	crd.Spec.Names.Plural, crd.Spec.Names.Singular, crd.Spec.Names.Kind = "gadgets", "gadget", "Gadget"
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		panic(err)
	}
	kind := &unstructured.Unstructured{Object: body}
	kind.SetGroupVersionKind(crds)
	unstructured.RemoveNestedField(kind.Object, "status")
	unstructured.RemoveNestedField(kind.Object, "metadata", "creationTimestamp")
	gadget := object(gadgets, space, "gadget")
	gadget.Object["spec"] = map[string]any{"size": int64(1)}
	return []*unstructured.Unstructured{gadget, one, role, kind, two, namespace}
}

// apply plays Flux: its library applies a set in stages, waits for it, finds drift, mends and prunes.
func apply(ctx context.Context, config *rest.Config, arguments []string) error {
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, web)
	if err != nil {
		return err
	}
	plain, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return err
	}
	poller := polling.NewStatusPoller(plain, mapper, polling.Options{})
	flux := ssa.NewResourceManager(plain, poller, ssa.Owner{Field: "flux", Group: "flux.example.org"})
	space := arguments[0]
	waiting := ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: patience}
	for _, turn := range []string{"first", "again"} {
		set := wanted(space)
		flux.SetOwnerLabels(set, "app", space)
		changes, err := flux.ApplyAllStaged(ctx, set, ssa.DefaultApplyOptions())
		if err != nil {
			return fmt.Errorf("%s: %w", turn, err)
		}
		see("applied "+turn, changes.ToMap())
		if err := flux.WaitForSet(changes.ToObjMetadataSet(), waiting); err != nil {
			return err
		}
		see("ready", len(changes.Entries))
	}
	if err := drift(ctx, flux, plain, space); err != nil {
		return err
	}
	return prune(ctx, flux, space, waiting)
}

// drift changes an object beside Flux, which finds it, and mends it.
func drift(ctx context.Context, flux *ssa.ResourceManager, plain client.Client, space string) error {
	strange := object(configMaps, space, "one")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"key":"strange","more":"1"}}`))
	if err := plain.Patch(ctx, strange, patch); err != nil {
		return err
	}
	for _, turn := range []string{"drifted", "mended"} {
		set := wanted(space)
		flux.SetOwnerLabels(set, "app", space)
		found := map[string]ssa.Action{}
		for _, one := range set {
			change, _, _, err := flux.Diff(ctx, one, ssa.DefaultDiffOptions())
			if err != nil {
				return err
			}
			found[change.Subject] = change.Action
		}
		see(turn, found)
		changes, err := flux.ApplyAllStaged(ctx, set, ssa.DefaultApplyOptions())
		if err != nil {
			return err
		}
		see("applied over it", changes.ToMap())
	}
	if err := plain.Get(ctx, client.ObjectKeyFromObject(strange), strange); err != nil {
		return err
	}
	see("data", strange.Object["data"])
	return nil
}

func prune(ctx context.Context, flux *ssa.ResourceManager, space string, waiting ssa.WaitOptions) error {
	changes, err := flux.DeleteAll(ctx, wanted(space), ssa.DeleteOptions{
		PropagationPolicy: "Background", Inclusions: flux.GetOwnerLabels("app", space),
	})
	if err != nil {
		return err
	}
	see("pruned", changes.ToMap())
	err = flux.WaitForSetTermination(changes, waiting)
	see("gone", err == nil)
	return err
}
