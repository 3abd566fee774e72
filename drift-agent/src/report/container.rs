//! The container in which a process runs.

/// As far as it is known: the runtime's id always is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// 64 hexadecimal digits.
    pub id: String,
    /// As the control group has it, where it is of a pod at all.
    pub pod_uid: Option<String>,
    /// What the cluster says of it.
    pub pod: Option<Pod>,
    /// What the pod calls the container.
    pub name: Option<String>,
    pub image: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    /// What it belongs to, as `Deployment/web`.
    pub workload: Option<String>,
    pub service_account: Option<String>,
}

impl Container {
    /// `namespace/pod`, or the beginning of the id: for people.
    #[must_use]
    pub fn short(&self) -> String {
        match &self.pod {
            Some(pod) => format!("pod {}/{}", pod.namespace, pod.name),
            None => format!("container {}", self.id.get(..12).unwrap_or(&self.id)),
        }
    }
}
