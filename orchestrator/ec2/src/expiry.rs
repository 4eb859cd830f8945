//! Writes the expiry of instances into their tags.

use crate::{Region, observe::VALUES, tags};
use cvc_cloud::provider::ProviderError;
use jiff::Timestamp;

impl Region {
    /// Writes a new expiry into the tags of instances.
    pub(crate) async fn write_expiry(
        &self,
        ids: &[String],
        expires: Timestamp,
    ) -> Result<(), ProviderError> {
        let tag = tags::expiry(expires);
        for some in ids.chunks(VALUES) {
            self.order("writing the end of instances into their tags", |session| {
                session
                    .ec2
                    .create_tags()
                    .set_resources(Some(some.to_vec()))
                    .tags(tag.clone())
                    .send()
            })
            .await?;
        }
        Ok(())
    }
}
