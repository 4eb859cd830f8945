//! Calls the cloud with the present identity, and again with a fresh one if that has expired.

use crate::{
    Region,
    error::{Effect, LostAnswer, failure},
    session::Session,
};
use aws_sdk_ec2::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use cvc_cloud::provider::{ErrorKind, ProviderError};
use cvc_core::log::{Ended, command_event};
use std::{error::Error, sync::Arc, time::Instant};

impl Region {
    /// The present clients.
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read())
    }

    /// Reads an identity from the user's configuration again, because files or the environment may have changed.
    async fn renew(&self) -> Result<Arc<Session>, ProviderError> {
        let fresh = Arc::new(Session::load(&self.account, self.profiles.as_deref()).await?);
        *self.session.write() = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Makes a read-only call.
    pub(crate) async fn ask<T, E, C, F>(&self, what: &str, call: C) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&Session) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        self.call(what, Effect::None, &LostAnswer::default(), call)
            .await
    }

    /// Makes a call that changes something.
    pub(crate) async fn order<T, E, C, F>(&self, what: &str, call: C) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&Session) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        self.call(what, Effect::Some, &LostAnswer::default(), call)
            .await
    }

    /// The same; `doubt` remembers whether the answer of any attempt was lost.
    pub(crate) async fn call<T, E, C, F>(
        &self,
        what: &str,
        effect: Effect,
        doubt: &LostAnswer,
        call: C,
    ) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&Session) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        let mut session = self.session();
        let (mut is_fresh, mut is_again) = (false, false);
        loop {
            // the future is made before it is awaited, so that no client is borrowed meanwhile
            let attempt = call(&session);
            let began = Instant::now();
            let answer = attempt.await;
            let mut error = match answer {
                Ok(answer) => {
                    command_event(
                        &self.name,
                        &["EC2", what],
                        began.elapsed(),
                        Ended::Exit(Some(0), ""),
                    );
                    return Ok(answer);
                }
                Err(error) => failure(what, &self.name, effect, doubt, &error),
            };
            command_event(
                &self.name,
                &["EC2", what],
                began.elapsed(),
                Ended::Failed(&error),
            );
            if error.code.as_deref() == Some("RequestExpired") && !is_again {
                // the SDK does not repeat this one; it has read the cloud's time from the answer, and signs the next call by that
                is_again = true;
            } else if error.kind == ErrorKind::Credentials && !is_fresh {
                session = self.renew().await?;
                // which does not know the cloud's time yet
                (is_fresh, is_again) = (true, false);
            } else {
                if let (ErrorKind::Credentials, Some(profile)) = (error.kind, &self.account.profile)
                {
                    error.message = format!("profile {profile}: {}", error.message);
                }
                return Err(error);
            }
        }
    }
}
