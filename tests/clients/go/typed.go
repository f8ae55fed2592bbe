package main

import (
	"context"
	"fmt"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// typed plays the typed clients of client-go with bodies in "protobuf" or "json".
func typed(ctx context.Context, config *rest.Config, arguments []string) error {
	form := arguments[0]
	media := map[string]string{"json": "application/json", "protobuf": "application/vnd.kubernetes.protobuf"}[form]
	config.ContentType, config.AcceptContentTypes = media, media
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	space := "typed-" + form
	if err := newNamespace(ctx, clients, space); err != nil {
		return err
	}
	maps := clients.CoreV1().ConfigMaps(space)
	if err := writes(ctx, maps); err != nil {
		return err
	}
	for _, part := range []func(context.Context, typedcore.ConfigMapInterface) error{patches, pages, watched} {
		if err := part(ctx, maps); err != nil {
			return err
		}
	}
	if err := deployments(ctx, clients, space); err != nil {
		return err
	}
	if err := statuses(ctx, clients, space); err != nil {
		return err
	}
	if err := others(ctx, clients, space); err != nil {
		return err
	}
	return endNamespace(ctx, clients, space)
}

func newNamespace(ctx context.Context, clients kubernetes.Interface, name string) error {
	body := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := clients.CoreV1().Namespaces().Create(ctx, body, metav1.CreateOptions{})
	return err
}

// endNamespace deletes it and waits until nothing is left of it.
func endNamespace(ctx context.Context, clients kubernetes.Interface, name string) error {
	if err := clients.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := until(ctx, "the namespace is gone", func() (bool, error) {
		_, err := clients.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	see("namespace gone", err == nil)
	return err
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part": "a"}},
		Data:       map[string]string{"key": value},
	}
}

func writes(ctx context.Context, maps typedcore.ConfigMapInterface) error {
	one := configMap("one", "1")
	one.BinaryData = map[string][]byte{"bytes": {0, 255, 128}}
	first, err := maps.Create(ctx, one, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	see("created", map[string]any{
		"data": first.Data, "bytes": first.BinaryData, "labels": first.Labels, "uid": first.UID != "",
		"manager": first.ManagedFields[0].Manager, "operation": first.ManagedFields[0].Operation,
	})
	_, err = maps.Create(ctx, one, metav1.CreateOptions{})
	see("created twice", refusal(err))
	first.Data["key"] = "2"
	second, err := maps.Update(ctx, first, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	see("updated", second.Data)
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	see("updated from the past", refusal(err))
	_, err = maps.Get(ctx, "none", metav1.GetOptions{})
	see("not there", refusal(err))
	_, err = maps.Create(ctx, configMap("Not A Name", ""), metav1.CreateOptions{})
	see("no name", refusal(err))
	other := types.UID("another")
	err = maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	see("deleted another", apierrors.ReasonForError(err))
	dry, err := maps.Create(ctx, configMap("dry", "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	_, err = maps.Get(ctx, dry.Name, metav1.GetOptions{})
	see("dry", map[string]any{"data": dry.Data, "kept": err == nil})
	return nil
}

func patches(ctx context.Context, maps typedcore.ConfigMapInterface) error {
	for _, patch := range []struct {
		form types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"data":{"strategic":"1"},"metadata":{"labels":{"part":null}}}`},
		{types.MergePatchType, `{"data":{"merge":"1","strategic":null}}`},
		{types.JSONPatchType, `[{"op":"test","path":"/data/merge","value":"1"},{"op":"add","path":"/data/json","value":"1"}]`},
		{types.JSONPatchType, `[{"op":"test","path":"/data/merge","value":"2"}]`},
	} {
		done, err := maps.Patch(ctx, "one", patch.form, []byte(patch.body), metav1.PatchOptions{})
		if err != nil {
			see("patched", refusal(err))
			continue
		}
		see("patched", map[string]any{"data": done.Data, "labels": done.Labels})
	}
	for _, manager := range []string{"first", "second"} {
		wanted := applycore.ConfigMap("applied", "").WithData(map[string]string{"owner": manager})
		wanted.Namespace = nil
		done, err := maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager})
		see("applied", refusal(err))
		if err == nil {
			see("owner", done.Data)
			continue
		}
		done, err = maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: true})
		if err != nil {
			return err
		}
		see("forced", map[string]any{"data": done.Data, "managers": managers(done.ManagedFields)})
	}
	return nil
}

func managers(fields []metav1.ManagedFieldsEntry) []string {
	names := []string{}
	for _, entry := range fields {
		names = append(names, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.FieldsV1))
	}
	sort.Strings(names)
	return names
}

func pages(ctx context.Context, maps typedcore.ConfigMapInterface) error {
	for number := range 5 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("page-%d", number), "1"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := metav1.ListOptions{Limit: 2, LabelSelector: "part=a"}
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		names := []string{}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		see("page", map[string]any{"names": names, "more": page.Continue != "", "left": page.RemainingItemCount})
		if page.Continue == "" {
			break
		}
		options.Continue = page.Continue
	}
	chosen, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=page-3"})
	if err != nil {
		return err
	}
	see("chosen", len(chosen.Items))
	_, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a in"})
	see("bad selector", refusal(err))
	_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "data.key=1"})
	see("bad field", refusal(err))
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "part=a"})
}

func watched(ctx context.Context, maps typedcore.ConfigMapInterface) error {
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	stream, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "part=a"})
	if err != nil {
		return err
	}
	defer stream.Stop()
	made, err := maps.Create(ctx, configMap("watched", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["key"] = "2"
	if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made.Labels["part"] = "b" // leaves the selection
	if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made.Labels["part"] = "a" // and enters it again
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err = maps.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for range 5 {
		event, open := <-stream.ResultChan()
		if !open || event.Type == watch.Error {
			return fmt.Errorf("the watch ended: %v", event)
		}
		body := event.Object.(*corev1.ConfigMap)
		see("event", map[string]any{"type": event.Type, "data": body.Data, "labels": body.Labels})
	}
	return nil
}

func deployments(ctx context.Context, clients kubernetes.Interface, space string) error {
	labels := map[string]string{"app": "web"}
	replicas := int32(3)
	wanted := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
	api := clients.AppsV1().Deployments(space)
	made, err := api.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	see("deployment", map[string]any{"spec": made.Spec, "generation": made.Generation})
	scale, err := api.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 5
	if scale, err = api.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	see("scale", map[string]any{"spec": scale.Spec, "status": scale.Status})
	wanted.Name, wanted.Spec.Selector = "bad", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	_, err = api.Create(ctx, wanted, metav1.CreateOptions{})
	see("bad deployment", refusal(err))
	return nil
}

// statuses writes the status of a kind that no controller of the test bed looks after.
func statuses(ctx context.Context, clients kubernetes.Interface, space string) error {
	api := clients.FlowcontrolV1().PriorityLevelConfigurations()
	seats := int32(5)
	wanted := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: space},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: &seats,
				LimitResponse:            flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
	made, err := api.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	*made.Spec.Limited.NominalConcurrencyShares = 9 // no status
	made.Status.Conditions = []flowcontrolv1.PriorityLevelConfigurationCondition{{Type: "Known", Status: "True"}}
	if made, err = api.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	shown := made.Status.Conditions[0]
	see("status", map[string]any{"spec": made.Spec, "generation": made.Generation, "type": shown.Type, "is": shown.Status})
	return api.Delete(ctx, space, metav1.DeleteOptions{})
}

func others(ctx context.Context, clients kubernetes.Interface, space string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"a": "b"}}
	kept, err := clients.CoreV1().Secrets(space).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	see("secret", map[string]any{"data": kept.Data, "type": kept.Type, "plain": kept.StringData})
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: space, Verb: "create", Resource: "pods"},
	}}
	asked, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	see("may", asked.Status.Allowed)
	_, err = clients.CoreV1().Pods(space).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, metav1.CreateOptions{})
	see("empty pod", refusal(err))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "example.org",
	}}
	shown, err := clients.CoreV1().Services(space).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	see("service", shown.Spec)
	return nil
}
