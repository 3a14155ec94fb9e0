package main

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// group is an API version and one empty object of every kind in it that the server knows.
type group struct {
	apiVersion string
	objects    []any
}

var groups = []group{
	{"v1", []any{
		corev1.Namespace{}, corev1.ConfigMap{}, corev1.Secret{}, corev1.ServiceAccount{}, corev1.Service{},
		corev1.Endpoints{}, corev1.Event{}, corev1.Pod{}, corev1.PodTemplate{}, corev1.Node{},
		corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, corev1.ReplicationController{},
		corev1.ResourceQuota{}, corev1.LimitRange{}, corev1.Binding{},
		metav1.Status{}, metav1.DeleteOptions{}, metav1.PartialObjectMetadata{},
	}},
	{"apps/v1", []any{
		appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}, appsv1.DaemonSet{}, appsv1.ControllerRevision{},
	}},
	{"batch/v1", []any{batchv1.Job{}, batchv1.CronJob{}}},
	{"discovery.k8s.io/v1", []any{discoveryv1.EndpointSlice{}}},
	{"coordination.k8s.io/v1", []any{coordinationv1.Lease{}}},
	{"events.k8s.io/v1", []any{eventsv1.Event{}}},
	{"rbac.authorization.k8s.io/v1", []any{
		rbacv1.Role{}, rbacv1.RoleBinding{}, rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{},
	}},
	{"networking.k8s.io/v1", []any{
		networkingv1.Ingress{}, networkingv1.IngressClass{}, networkingv1.NetworkPolicy{},
		networkingv1.ServiceCIDR{}, networkingv1.IPAddress{},
	}},
	{"policy/v1", []any{policyv1.PodDisruptionBudget{}, policyv1.Eviction{}}},
	{"scheduling.k8s.io/v1", []any{schedulingv1.PriorityClass{}}},
	{"autoscaling/v1", []any{autoscalingv1.Scale{}}},
	{"autoscaling/v2", []any{autoscalingv2.HorizontalPodAutoscaler{}}},
	{"authentication.k8s.io/v1", []any{
		authenticationv1.TokenRequest{}, authenticationv1.TokenReview{}, authenticationv1.SelfSubjectReview{},
	}},
	{"authorization.k8s.io/v1", []any{
		authorizationv1.SubjectAccessReview{}, authorizationv1.SelfSubjectAccessReview{},
		authorizationv1.LocalSubjectAccessReview{}, authorizationv1.SelfSubjectRulesReview{},
	}},
	{"apiextensions.k8s.io/v1", []any{apiextensionsv1.CustomResourceDefinition{}}},
}
