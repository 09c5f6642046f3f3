//! Slim types of watched Kubernetes objects: only what scheduling reads, every field a [`Field`].
//!
//! They are for reading. Never write one back: it would drop all other fields.
//!
//! [`Field`]: super::field::Field

pub mod claim;
pub mod device;
pub mod node;
pub mod numa;
pub mod pod;
pub mod selector;
pub mod volume;
pub mod workload;

pub use claim::ResourceClaim;
pub use device::{DeviceClass, DeviceTaintRule, ResourceSlice};
pub use node::Node;
pub use pod::Pod;
pub use volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
pub use workload::{Namespace, ReplicaSet, ReplicationController, Service, StatefulSet};

/// Lets kube list and watch a type that has `metadata: Meta`.
macro_rules! resource {
    ($name:ident, $scope:ident, $group:literal, $kind:literal, $plural:literal) => {
        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata.object
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata.object
            }
        }
    };
}
pub(crate) use resource;

/// Declares structs of fields that decode from any JSON object.
macro_rules! wire {
    ($($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$attr:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $($(#[$attr])* pub $field: $type,)*
        }
        $crate::wire::field::object_shape!($name);
    )*};
}
pub(crate) use wire;

#[cfg(test)]
mod tests {
    use kube::Resource;

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(super::Pod::url_path(&(), Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(super::CsiNode::url_path(&(), None), "/apis/storage.k8s.io/v1/csinodes");
        assert_eq!(super::ReplicaSet::url_path(&(), None), "/apis/apps/v1/replicasets");
    }

    #[test]
    fn an_odd_object_does_not_break_a_list() {
        let list: kube::core::ObjectList<super::Pod> = serde_json::from_str(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
                {"metadata":{"name":"odd"},"spec":{"containers":[{"resources":"much"}]}},
                {"metadata":7,"spec":[],"status":"x"},
                {"metadata":{"name":"good"}}]}"#,
        )
        .unwrap();
        assert_eq!(list.items.len(), 3);
        assert_eq!(list.items[2].meta().name.as_deref(), Some("good"));
    }

    #[test]
    fn watch_events_decode_whatever_the_order_of_their_fields() {
        for json in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"priority":"high"}}}"#,
            r#"{"object":{"metadata":{"name":"a"},"spec":{"priority":"high"}},"type":"ADDED"}"#,
        ] {
            let event: kube::core::WatchEvent<super::Pod> = serde_json::from_str(json).unwrap();
            let kube::core::WatchEvent::Added(pod) = event else { panic!("not added") };
            assert_eq!(pod.meta().name.as_deref(), Some("a"));
        }
    }
}
