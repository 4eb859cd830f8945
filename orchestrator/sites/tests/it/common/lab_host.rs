//! A node of a lab as a [`Host`] that is reached without ssh.

use async_trait::async_trait;
use camino::Utf8Path;
use cvc_engine::host::{Host, HostError, Output};
use cvc_testkit::{Lab, lab::output_within};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A node of a lab.
pub struct LabHost {
    pub lab: Arc<Lab>,
    pub node: &'static str,
}

#[async_trait]
impl Host for LabHost {
    fn name(&self) -> &str {
        self.node
    }

    async fn run(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let (lab, node, argv, env) = (Arc::clone(&self.lab), self.node, argv.to_vec(), env.clone());
        let output = tokio::task::spawn_blocking(move || {
            let mut command = lab.node(node).command(&argv[0]);
            command.args(&argv[1..]).envs(env);
            output_within(command, limit)
        });
        let output = output.await.expect("the command");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Output {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        let at = to.strip_prefix("/shared").expect("below /shared");
        std::fs::write(self.lab.shared().join(at), content).expect("writes");
        Ok(())
    }

    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
        let at = from.strip_prefix("/shared").expect("below /shared");
        Ok(std::fs::read(self.lab.shared().join(at)).expect("reads"))
    }
}
