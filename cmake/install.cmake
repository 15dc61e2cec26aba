# install + export; filled in with the consumer test.
