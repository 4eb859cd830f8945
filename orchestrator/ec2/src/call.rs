//! Makes calls with the current identity (credentials), and repeats a call with a fresh one if the current one has expired.

use crate::{
    Region,
    error::{LostAnswer, RequestEffect, failure},
    session::ClientSet,
};
use aws_sdk_ec2::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use cvc_cloud::provider::{ErrorKind, ProviderError};
use cvc_core::log::{Ended, command_event};
use std::{error::Error, sync::Arc, time::Instant};

impl Region {
    /// Returns the current clients.
    pub(crate) fn session(&self) -> Arc<ClientSet> {
        Arc::clone(&self.session.read())
    }

    /// Creates clients with an identity read again from the user's configuration, because files or the environment may have changed.
    async fn renew(&self) -> Result<Arc<ClientSet>, ProviderError> {
        let fresh = Arc::new(ClientSet::load(&self.account, self.profiles.as_deref()).await?);
        *self.session.write() = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Makes a read-only call.
    pub(crate) async fn ask<T, E, C, F>(&self, what: &str, call: C) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&ClientSet) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        self.call(what, RequestEffect::None, &LostAnswer::default(), call)
            .await
    }

    /// Makes a call that changes something.
    pub(crate) async fn order<T, E, C, F>(&self, what: &str, call: C) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&ClientSet) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        self.call(what, RequestEffect::Some, &LostAnswer::default(), call)
            .await
    }

    /// Like [`Self::order`]; `doubt` records whether the answer of any attempt was lost.
    pub(crate) async fn call<T, E, C, F>(
        &self,
        what: &str,
        effect: RequestEffect,
        doubt: &LostAnswer,
        call: C,
    ) -> Result<T, ProviderError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        C: Fn(&ClientSet) -> F + Send,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        T: Send,
    {
        let mut session = self.session();
        let (mut is_fresh, mut is_again) = (false, false);
        loop {
            // create the future before awaiting it, so that it borrows no client meanwhile
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
                // the SDK does not repeat such a call, but it has read the cloud's clock from the answer, and signs the next call by that clock
                is_again = true;
            } else if error.kind == ErrorKind::Credentials && !is_fresh {
                session = self.renew().await?;
                // the fresh clients do not know the cloud's clock yet, so that one more repetition is allowed
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
