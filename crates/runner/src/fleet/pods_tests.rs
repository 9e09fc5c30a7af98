//! How kubectl's answers are understood: those of Kubernetes 1.32, shortened.

use serde_json::json;

use super::*;

fn asked(pods: u32) -> PodsOfJob {
    PodsOfJob { pods, namespace: Some("bench".into()), ..PodsOfJob::default() }
}

fn pod(index: u32, node: &str, status: &Value) -> Value {
    json!({
        "metadata": {
            "name": format!("webstone-{index}-x7k2p"), "namespace": "bench",
            "annotations": { "batch.kubernetes.io/job-completion-index": index.to_string() },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "webstone" }] },
        "status": status,
    })
}

fn running() -> Value {
    json!({ "phase": "Running", "containerStatuses": [{ "name": "webstone", "state": { "running": {} } }] })
}

fn list(items: &[Value]) -> Value {
    json!({ "items": items })
}

fn waits(pod: &Value) -> String {
    match standing(pod) {
        Standing::Waits(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_that_run_are_taken_by_their_index() {
    let items = [1, 0, 2].map(|index| pod(index, &format!("node{index}"), &running()));
    let found = standings(&asked(2), &list(&items));
    let names: Vec<&str> = found.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["webstone-0-x7k2p", "webstone-1-x7k2p"]);
    let interrupt = Interrupt::default();
    let (asked, with_context) = (asked(2), Some("eu west".to_owned()));
    let asked = PodsOfJob { context: with_context, ..asked };
    let kubectl = Kubectl::unchecked(&asked, &interrupt);
    let launches = each_on_its_own(&asked, &kubectl, &found).unwrap();
    assert_eq!(
        launches[1].command,
        "kubectl --context 'eu west' --namespace bench exec -i webstone-1-x7k2p --container webstone -- webstone agent"
    );
    assert_eq!(launches[0].pod.as_ref().unwrap().in_words(), "pod webstone-0-x7k2p on node0");
}

#[test]
fn two_pods_on_one_node_are_refused_unless_that_was_allowed() {
    let items = [0, 1].map(|index| pod(index, "node1", &running()));
    let (interrupt, alone) = (Interrupt::default(), asked(2));
    let of = |asked: &PodsOfJob| {
        each_on_its_own(asked, &Kubectl::unchecked(asked, &interrupt), &standings(asked, &list(&items)))
    };
    let error = of(&alone).unwrap_err();
    assert_eq!(
        error.to_string(),
        "generators.kubernetes: pods webstone-0-x7k2p and webstone-1-x7k2p are on the same node, node1, and would count twice"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("share_nodes = true")));
    let launches = of(&PodsOfJob { share_nodes: true, ..alone }).unwrap();
    assert!(launches.len() == 2 && launches.iter().all(|launch| launch.may_share));
}

#[test]
fn what_keeps_a_pod_from_running_is_said_in_kubernetes_words() {
    let unschedulable = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 node(s) didn't match\n pod anti-affinity rules.",
    }] });
    assert_eq!(
        waits(&pod(1, "", &unschedulable)),
        "Pending: Unschedulable: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    );
    let pulling = json!({ "phase": "Pending", "containerStatuses": [{
        "name": "webstone", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\"" } },
    }] });
    assert_eq!(waits(&pod(0, "node1", &pulling)), "Pending: ImagePullBackOff: Back-off pulling image \"x\"");
    let mut other = pod(0, "node1", &running());
    other["spec"]["containers"][0]["name"] = json!("load");
    assert_eq!(waits(&other), "Running: it has no container called webstone");
    assert_eq!(standings(&asked(1), &list(&[]))[0].name, "of index 0");
    let pods = standings(&asked(2), &list(&[pod(0, "node1", &running()), pod(1, "", &unschedulable)]));
    let waiting: Vec<&Found> = pods.iter().filter(|pod| matches!(pod.standing, Standing::Waits(_))).collect();
    let text = not_running(&asked(2), &pods, &waiting).to_string();
    assert!(
        text.starts_with(
            "generators.kubernetes: only 1 of 2 pods of the Job webstone in namespace bench run after 2m; pod webstone-1-x7k2p: \
             Pending: Unschedulable: "
        ),
        "{text}"
    );
}

#[test]
fn a_pod_that_has_ended_is_not_waited_for_unless_another_has_its_place() {
    let ended = json!({ "phase": "Succeeded", "containerStatuses": [{
        "name": "webstone", "state": { "terminated": { "exitCode": 0, "reason": "Completed" } },
    }] });
    let old = pod(0, "node1", &ended);
    let Standing::Ended(how) = standing(&old) else { panic!("it has ended") };
    assert_eq!(how, "Succeeded, Completed, exit code 0");
    let found = standings(&asked(1), &list(&[old, pod(0, "node2", &running())]));
    assert!(matches!(&found[0].standing, Standing::Runs(pod) if pod.node == "node2"), "{found:?}");
    let mut leaving = pod(0, "node1", &running());
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:04:05Z");
    assert!(matches!(standing(&leaving), Standing::Ended(_)));
}

#[test]
fn a_job_that_cannot_have_the_pods_is_refused_at_once() {
    let job = |change: &dyn Fn(&mut Value)| {
        let mut job = json!({ "spec": { "completionMode": "Indexed", "completions": 4, "parallelism": 4 }, "status": {} });
        change(&mut job);
        can_have(&asked(4), &job).map_err(|error| (error.to_string(), error.hint().unwrap_or_default()))
    };
    assert_eq!(job(&|_| ()), Ok(()));
    assert_eq!(job(&|job| job["spec"]["completions"] = json!(9)), Ok(()));
    for (change, wanted) in [
        (&|job: &mut Value| job["spec"]["completionMode"] = json!("NonIndexed"), "is not an Indexed Job"),
        (
            &|job: &mut Value| job["spec"]["parallelism"] = json!(2),
            "runs 2 pods at a time, but 4 are to make load",
        ),
        (
            &|job: &mut Value| {
                job["status"]["conditions"] =
                    json!([{ "type": "Failed", "status": "True", "reason": "DeadlineExceeded" }]);
            },
            "has ended (DeadlineExceeded)",
        ),
    ] as [(&dyn Fn(&mut Value), &str); 3]
    {
        let (what, hint) = job(change).unwrap_err();
        assert!(what.contains(&format!("the Job webstone in namespace bench {wanted}")), "{what}");
        assert!(hint.contains("kubectl delete job webstone --namespace bench"), "{hint}");
    }
}
