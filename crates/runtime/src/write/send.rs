//! One write, and what its answer means.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Client, Error};
use serde::Serialize;

use causeway_record::{Action, Ended, Request};

pub(super) async fn send(client: &Client, request: &Request, time_out: Duration) -> Ended {
    match tokio::time::timeout(time_out, attempt(client, request)).await {
        Ok(Ok(())) => Ended::Done,
        Ok(Err(error)) => ended(error, &request.action),
        Err(_) => Ended::Failed(format!("the API server did not answer within {} s", time_out.as_secs())),
    }
}

async fn attempt(client: &Client, request: &Request) -> Result<(), Error> {
    let resource = request.target.kind.resource();
    let api: Api<DynamicObject> = match &request.target.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = &request.target.name;
    match &request.action {
        Action::Merge { subresource, body } => {
            patch(client, &api, name, *subresource, &PatchParams::default(), &Patch::Merge(body)).await
        }
        Action::Apply { subresource, manager, body } => {
            let params = PatchParams::apply(manager).force();
            patch(client, &api, name, *subresource, &params, &Patch::Apply(body)).await
        }
        Action::Create(body) => {
            let object: DynamicObject = serde_json::from_value(body.clone()).map_err(Error::SerdeError)?;
            api.create(&PostParams::default(), &object).await.map(drop)
        }
        Action::Delete { uid } => {
            let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
            api.delete(name, &DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() })
                .await
                .map(drop)
        }
    }
}

/// The answer is not read but for its metadata: pods are large.
async fn patch<P: Serialize + std::fmt::Debug>(
    client: &Client,
    api: &Api<DynamicObject>,
    name: &str,
    subresource: Option<&str>,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<(), Error> {
    let requests = kube::core::Request::new(api.resource_url());
    let request = match subresource {
        Some(subresource) => requests.patch_subresource(subresource, name, params, patch),
        None => requests.patch(name, params, patch),
    };
    let request = request.map_err(Error::BuildRequest)?;
    client.request::<PartialObjectMeta<DynamicObject>>(request).await.map(drop)
}

/// A UID that differs comes back as an invalid change of a field that cannot change.
fn ended(error: Error, action: &Action) -> Ended {
    let Error::Api(status) = error else { return Ended::Failed(error.to_string()) };
    match status.code {
        404 if !creates(action) => Ended::NotFound,
        409 => Ended::Conflict(status.message.clone()),
        422 if status.message.contains("metadata.uid") => Ended::Conflict(status.message.clone()),
        _ => Ended::Failed(status.message.clone()),
    }
}

/// Whether the write makes an object that is not there. Then a missing one means that its namespace or kind is missing.
const fn creates(action: &Action) -> bool {
    matches!(action, Action::Create(_) | Action::Apply { subresource: None, .. })
}
